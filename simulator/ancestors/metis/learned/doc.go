// Package learned places containers by reinforcement learning: the agents of Metis (Wang, Weng, Wang, Chen, Li,
// "Metis: learning to schedule long-running applications in shared container clusters at scale", SC 2020) and of its
// follow-up George (SoCC 2021), as in their programs, and a recipe of this project that learns faster.
//
// Metis divides the problem: a tree of three choices per level leads from the cluster to a node, with a small network
// per level. A sub-scheduler for 27 nodes is trained once, for arbitrary batches; for a batch on a large cluster, a
// high-level agent then learns, within seconds, how many containers of each app each group of 27 nodes receives.
// Vanilla RL chooses among all nodes directly; divide-and-conquer learns the whole tree for one batch.
//
// Known differences from these programs:
//   - Throughputs are looked up in a table instead of predicted by a forest for each node, and the random numbers
//     differ.
//   - The best placement found counts even if it is a demonstration.
//   - With more than three groups, a demonstration assigns a container to the emptiest of all groups instead of the
//     emptiest part at each level; a group holds the capacity of its nodes (216 containers), where the program for
//     729 nodes uses 200.
//   - By default, Metis plays 1500 episodes instead of 20 000 (2000 on 729 nodes), and other methods play fewer, too.
//   - Divide-conquer is the paper's tree of four levels with settings of this project, unless Released is set.
//   - George's second-order steps are replaced by a PID Lagrangian on the same policy gradient.
//   - Objectives other than the mean throughput, several node types, and nodes that are not empty are additions (not
//     for metis).
//
// The improved recipe is original to this project: one network scores the distinct kinds of nodes, for any number of
// nodes and containers, and learns from a teacher based on the shadow prices of the apps (see trainImproved).
//
// For the best placement, use package exact, which finds the optimum in less time. This package serves comparisons.
//
// Example:
//
//	model, curve, err := learned.Train(ctx, learned.Options{Recipe: "improved", Table: place.MetisTable()}, nil)
//	solution, curve, err := learned.Place(ctx, problem, model, learned.PlaceOptions{Method: "metis"}, nil)
package learned
