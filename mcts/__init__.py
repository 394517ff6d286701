"""Tree search over arrays. Knows neither torch nor any game.

B trees grow in lockstep. In every step the caller evaluates one batch of positions with the network, and the search
backs the results up:

    search = Search(Config(simulations=N), batch=B, num_actions=A, num_players=P)
    search.begin(root_outputs, legal, phase, keys)
    for _ in range(search.steps):
        requests = search.select()
        search.expand(network(requests.parent, requests.action))
    results = search.results()
    actions = search.choose(temperature=1.0)

`Config.fields()` lists the settings. `muzero.search` runs this loop with a torch network.
"""

from mcts._native import Config, Field, considered_visits
from mcts.search import ActionTable, PhaseTable, Requests, Results, Search

__all__ = ["ActionTable", "Config", "Field", "PhaseTable", "Requests", "Results", "Search", "considered_visits"]
