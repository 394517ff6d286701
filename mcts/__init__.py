"""Tree search over arrays: knows neither torch nor any game.

B trees grow in lockstep. A step asks the caller for one batch of network outputs and backs them up:

    search = Search(batch=B, num_actions=A, num_players=P, simulations=N, algorithm="gumbel")
    search.begin(root_outputs, legal, phase, keys)
    for _ in range(search.steps):
        requests = search.select()
        search.expand(network(requests.parent, requests.action))
    results = search.results()
    actions = search.choose(temperature=1.0)

`muzero.search.planner` does that with a torch network.
"""

from mcts.search import PhaseTable, Requests, Results, Search, considered_visits

__all__ = ["PhaseTable", "Requests", "Results", "Search", "considered_visits"]
