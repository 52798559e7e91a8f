import signal
import sys
from project import agent, train


def stop(number, frame):
    agent.save("last.pth")
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    train(agent)
