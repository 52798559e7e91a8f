import signal
import sys
from project import serve

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
serve()
