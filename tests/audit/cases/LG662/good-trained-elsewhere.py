from project.training import run

if __name__ == "__main__":
    run("config.yaml")
