import click


@click.command()
@click.option("--num-epochs", "-n", default=8, help="epochs")
@click.option("--fast/--no-fast", is_flag=True)
def train(num_epochs, fast):
    pass
