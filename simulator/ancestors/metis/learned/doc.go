// Package learned places containers by policies that are learned by reinforcement: the agents of Metis (Wang, Weng, Wang, Chen, Li,
// "Metis: learning to schedule long-running applications in shared container clusters at scale", SC 2020) and of its follow-up
// George (SoCC 2021), as their programs are, and a recipe of ours that learns faster.
//
// Metis divides: a tree of choices among three leads from a cluster to a node, and one small network decides at each level of the
// tree. A sub-scheduler for 27 nodes is trained once, for batches of any kind; for one batch on a large cluster a high-level agent
// then learns, in seconds, how many containers of what app each group of 27 nodes gets. Vanilla RL chooses among all nodes at once,
// divide-and-conquer learns the whole tree for one batch.
//
// What differs from their programs, knowingly:
//   - Throughput is looked up in a table instead of asked of a forest for each node, and random numbers are others.
//   - The best placement met counts even when it is a demonstration.
//   - With more than three groups, a demonstration goes to the emptiest group of all instead of choosing the emptiest part at each
//     level; a group holds what its nodes hold (216 containers), where the program for 729 nodes says 200.
//   - Metis plays 1500 episodes where nothing else is asked for, not 20 000 (2000 on 729 nodes), and others fewer, too.
//   - Divide-conquer is the paper's tree of four levels with settings of ours, unless Released is set.
//   - George's second-order steps are replaced by a PID Lagrangian on the same policy gradient.
//   - Other objectives than the mean throughput, several node types, and nodes that are not empty are ours (not for metis).
//
// The improved recipe is ours altogether: one network scores the kinds of nodes that there are, for any number of nodes and
// containers, and learns from a teacher that knows the shadow prices of the apps (see trainImproved).
//
// It is not the way to the best placement: package exact finds the optimum in less time. It is here to be compared with.
//
// Example:
//
//	model, curve, err := learned.Train(ctx, learned.Options{Recipe: "improved", Table: place.MetisTable()}, nil)
//	solution, curve, err := learned.Place(ctx, problem, model, learned.PlaceOptions{Method: "metis"}, nil)
package learned
