"""An oracle and a simulator: random histories of clusters, judged by epochaudit and by a slow, plain replay."""
