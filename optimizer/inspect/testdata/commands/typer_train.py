import typer

app = typer.Typer()


@app.command()
def train(epochs: int = typer.Option(6, "--epochs", "-e")):
    pass
