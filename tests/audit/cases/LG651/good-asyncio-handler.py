import asyncio
import signal
import torch
from project import Net


async def main():
    model = Net()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: torch.save(model.state_dict(), "model.pt"))
    await model.serve()


if __name__ == "__main__":
    asyncio.run(main())
