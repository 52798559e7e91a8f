"""The job with lastgood.Run, with a launcher around it or without."""

import digits
import torch
from nine_faults.recorder import SAVE_EVERY, Recorder

import lastgood


def main() -> None:
    recorder = Recorder()
    digits.begin()
    data = digits.data()
    model = digits.network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if recorder.loader == "plain":
        loader = torch.utils.data.DataLoader(data, batch_size=digits.BATCH, shuffle=True)
    else:
        sampler = lastgood.ResumableSampler(len(data), batch_size=digits.BATCH, seed=digits.SEED)
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    run = lastgood.Run({"model": model, "optimizer": optimizer}, job=recorder.store, every=SAVE_EVERY)
    recorder.resumed(run.step)
    train(run, loader, model, optimizer, recorder)
    recorder.final(model)


def train(
    run: lastgood.Run,
    loader: torch.utils.data.DataLoader,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    recorder: Recorder,
) -> None:
    if run.step == recorder.total:
        return
    for _epoch in run.epochs(recorder.total // digits.BATCHES + 1):
        for images, labels, samples in run.batches(loader):
            loss = digits.train_step(model, optimizer, images, labels)
            run.log(loss=loss)
            recorder.step(run.step + 1, loss, samples.tolist())
            if run.step + 1 == recorder.total:
                run.finish()
                return


main()
