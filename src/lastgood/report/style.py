"""How the page looks: its colours in light and dark, and its style sheet. Pure.

The choice of a scheme is three radio buttons and no script. On paper it is always light.
"""

from collections.abc import Mapping

from lastgood.report.model import KINDS

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "panel": "#f4f6f8",
    "ink": "#1a1f26",
    "quiet": "#556070",
    "line": "#cfd6de",
    "link": "#0b5cad",
    "good": "#176639",
    "bad": "#a3210c",
    "warn": "#7d4a00",
    "useful": "#5692d6",
    "lost": "#b3210b",
    "saving": "#b07a00",
    "restarting": "#7a4fc4",
    "queued": "#7f8a97",
    "hung": "#8c0f63",
    "stopping": "#0f7f7a",
    "down": "#58616d",
    "unseen": "#9a6b8f",
    "fault": "#1a1f26",
}
"""Text on paper and panel keeps 4.5 : 1, shapes on paper 3 : 1 (WCAG AA), which a test computes."""

DARK: Mapping[str, str] = {
    "paper": "#10151c",
    "panel": "#1a212b",
    "ink": "#e8edf3",
    "quiet": "#a3adba",
    "line": "#364152",
    "link": "#79b8ff",
    "good": "#63d08b",
    "bad": "#ff9580",
    "warn": "#f0b849",
    "useful": "#4d8fe0",
    "lost": "#ff6b4d",
    "saving": "#e3b341",
    "restarting": "#b794f6",
    "queued": "#8b95a3",
    "hung": "#ff7ac6",
    "stopping": "#3fbfb8",
    "down": "#b3bcc8",
    "unseen": "#c99bbd",
    "fault": "#e8edf3",
}

TEXT_COLOURS = ("ink", "quiet", "link", "good", "bad", "warn")
SHAPE_COLOURS = (*KINDS, "fault")

PHONE_PX = 700
"""Below this width charts have their narrow form."""


def style_sheet() -> str:
    """
    >>> "--lost:#b3210b" in style_sheet()
    True
    """
    dark = _variables(DARK)
    shapes = "".join(f".k-{name}{{fill:var(--{name});background:var(--{name})}}" for name in SHAPE_COLOURS)
    return (
        f":root{{color-scheme:light;{_variables(LIGHT)}}}"
        "@media screen and (prefers-color-scheme:dark){:root:not(:has(#scheme-light:checked))"
        f"{{color-scheme:dark;{dark}}}}}"
        f"@media screen{{:root:has(#scheme-dark:checked){{color-scheme:dark;{dark}}}}}" + shapes + _squeezed(_RULES)
    )


def _variables(colours: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in colours.items())


def _squeezed(rules: str) -> str:
    return "".join(line.strip() for line in rules.splitlines())


_RULES = f"""
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%}}
body{{margin:0;overflow-wrap:break-word;background:var(--paper);color:var(--ink);
 font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif}}
main,header,footer{{max-width:66rem;margin:0 auto;padding:0 1rem}}
header{{padding-top:1.25rem}}
h1{{font-size:1.5rem;line-height:1.25;margin:.25rem 0;overflow-wrap:anywhere}}
h2{{font-size:1.25rem;line-height:1.3;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line);
 overflow-wrap:anywhere}}
h3{{font-size:1.05rem;line-height:1.3;margin:1.75rem 0 .4rem;overflow-wrap:anywhere}}
p{{margin:.4rem 0;max-width:46rem;overflow-wrap:anywhere}}
a{{color:var(--link)}}
code,.mono{{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere}}
.quiet{{color:var(--quiet)}}
.good{{color:var(--good)}} .bad{{color:var(--bad)}} .warn{{color:var(--warn)}}
.top{{display:flex;flex-wrap:wrap;gap:.25rem 1rem;justify-content:space-between;align-items:center;
 color:var(--quiet);font-size:.9rem}}
fieldset{{border:0;margin:0;padding:0;display:flex;gap:.75rem}}
legend{{float:left;padding:0 .5rem 0 0}}
label{{display:inline-flex;gap:.3rem;align-items:center;min-height:1.5rem}}
input{{accent-color:var(--link)}}
:focus-visible{{outline:2px solid var(--link);outline-offset:2px}}
.verdict{{max-width:58rem;font-size:1.15rem;line-height:1.45;margin:.75rem 0}}
.verdict b{{font-weight:650}}
.todo{{border:1px solid var(--line);border-left:4px solid var(--good);background:var(--panel);border-radius:4px;
 padding:.6rem .9rem;margin:1rem 0;overflow-wrap:anywhere}}
.todo.bad{{border-left-color:var(--bad);color:inherit}} .todo.warn{{border-left-color:var(--warn);color:inherit}}
.todo h3{{margin:0}} .todo ul{{margin:.3rem 0;padding-left:1.2rem}} .todo p{{margin:.2rem 0}}
.cards{{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.6rem;margin:1rem 0;padding:0}}
.card{{background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:.6rem .8rem}}
.card dt{{color:var(--quiet);font-size:.85rem}}
.card dd{{margin:0;font-size:1.35rem;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums}}
.card dd.small{{font-size:.85rem;font-weight:400;color:var(--quiet);line-height:1.4}}
.formula{{display:grid;gap:.1rem;background:var(--panel);border:1px solid var(--line);border-radius:4px;
 padding:.6rem .9rem;margin:.6rem 0;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}}
.scroll{{overflow-x:auto;margin:.6rem 0;width:fit-content;max-width:100%;max-height:34rem;overflow-y:auto;border:1px solid var(--line);border-radius:4px;
 background:linear-gradient(to right,var(--paper) 40%,transparent) left/2rem 100% no-repeat local,
 linear-gradient(to left,var(--paper) 40%,transparent) right/2rem 100% no-repeat local,
 linear-gradient(to right,var(--line),transparent) left/.7rem 100% no-repeat scroll,
 linear-gradient(to left,var(--line),transparent) right/.7rem 100% no-repeat scroll}}
table{{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}}
caption{{text-align:left;padding:.45rem .6rem;color:var(--quiet);font-size:.95em}}
th,td{{text-align:left;vertical-align:top;padding:.3rem .6rem;border-top:1px solid var(--line)}}
th{{font-weight:600}} tbody th{{font-weight:500;white-space:nowrap}}
thead th{{position:sticky;top:0;background:var(--panel);color:var(--quiet);font-size:.92em;white-space:nowrap}}
.n{{text-align:right;white-space:nowrap}}
.short{{max-height:none}} .scroll:has(>[data-of=jobs]){{max-height:60rem}} .nowrap{{white-space:nowrap}}
.why{{min-width:18rem;overflow-wrap:anywhere}} .some{{min-width:8rem}} .text{{min-width:13rem}}
.swatch,svg{{forced-color-adjust:none}} .swatch{{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.45rem;vertical-align:-.08rem}}
.strip{{display:block;width:100%;height:34px}} .strip.small{{height:20px;min-width:14rem}}
.bar{{display:block;width:100%;height:26px;margin:.6rem 0}}
.mark{{stroke:var(--fault);stroke-width:1.5;vector-effect:non-scaling-stroke;fill:none}}
.base{{fill:var(--panel)}}
.axis{{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1rem;color:var(--quiet);font-size:.82rem;
 font-variant-numeric:tabular-nums}}
.key{{display:flex;flex-wrap:wrap;gap:.15rem 1rem;list-style:none;margin:.4rem 0;padding:0;font-size:.88rem}}
.key .tick{{display:inline-block;width:.8rem;text-align:center;margin-right:.3rem;font-weight:700}}
figure{{margin:.8rem 0}} figcaption{{color:var(--quiet);font-size:.88rem;max-width:46rem}}
.chart{{display:block;width:100%;height:auto}}
.chart text{{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif;
 font-variant-numeric:tabular-nums}}
.narrow{{display:none;max-width:30rem}}
.badge{{display:inline-block;border:1px solid currentColor;border-radius:99px;padding:0 .55rem;font-size:.82rem;
 white-space:nowrap}}
footer{{margin-top:3rem;padding-bottom:2rem;color:var(--quiet);font-size:.85rem}}
.skip{{position:absolute;left:-999px}} .skip:focus{{left:1rem;top:.5rem;background:var(--paper);padding:.3rem}}
.defs{{position:absolute;width:0;height:0}}
@media(max-width:{PHONE_PX}px){{
 .wide{{display:none}} .narrow{{display:block}}
 body{{font-size:16px}} .cards{{grid-template-columns:repeat(auto-fit,minmax(8rem,1fr))}} .card dd{{font-size:1.2rem}}
 tbody th{{white-space:normal}} .text{{min-width:24rem}} .why{{min-width:22rem}}
}}
@media print{{
 @page{{margin:14mm 12mm}}
 *{{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
 body{{font-size:9.5pt;line-height:1.4}} main,header,footer{{max-width:none;padding:0}} header{{padding:0}} p{{max-width:none}}
 h2{{margin-top:1.5rem}} h3{{margin-top:1.1rem}} .verdict{{font-size:1.1em;margin:.5rem 0}}
 .cards{{grid-template-columns:repeat(auto-fit,minmax(7rem,1fr));gap:.4rem;margin:.6rem 0}} .card{{padding:.35rem .6rem}}
 .card dd{{font-size:1.2em}} .todo{{padding:.4rem .7rem;margin:.6rem 0}}
 .scroll,.scroll:has(>[data-of=jobs]){{overflow:visible;max-height:none;width:auto;background:none}}
 thead{{display:table-header-group}} thead th{{position:static}}
 .wide{{display:block}} .narrow,fieldset,.skip,.back{{display:none}}
 h1,h2,h3,caption,figcaption{{break-after:avoid}} figure,tr,.card,.todo,.formula,.short{{break-inside:avoid}}
 .bar{{break-after:avoid}}
 tbody tr:first-child{{break-before:avoid}}
 a{{color:inherit;text-decoration:none}} table{{font-size:.9em}} th,td{{padding:.15rem .35rem}}
 .why,.some,.text{{min-width:0}} thead th,span.nowrap,div.nowrap{{white-space:normal}} .strip.small{{min-width:8rem}}
}}
"""
