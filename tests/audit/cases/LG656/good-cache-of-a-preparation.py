import os
import pickle
from project import read

for name in os.listdir("raw"):
    if os.path.exists(name + ".pkl"):
        with open(name + ".pkl", "rb") as file:
            table = pickle.load(file)
    else:
        table = read(name)
        with open(name + ".pkl", "wb") as file:
            pickle.dump(table, file)
