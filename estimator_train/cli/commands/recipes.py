"""estimator_train recipes: the recipes there are."""

import click
import tabulate

from estimator_train.recipes import ABOUT


@click.command()
def recipes():
    """List the recipes: whole systems to start from."""
    click.echo(tabulate.tabulate(ABOUT.items(), tablefmt="plain"))
