import os
import pickle
from project import evolve

if os.path.exists("population.pkl"):
    with open("population.pkl", "rb") as file:
        population = pickle.load(file)
else:
    population = []
for generation in range(10000):
    population = evolve(population)
    with open("population.pkl", "wb") as file:
        pickle.dump(population, file)
