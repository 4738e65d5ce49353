// Package transfer predicts how a training goes where it never ran, from measurements of it and of others that resemble it:
// samples per second, its own units per second, whole trainings per second, host and GPU memory, each with a 90 % interval
// and with what the answer rests on.
//
// It keeps no database (package history does), knows no published figure itself (package measured does), and decides nothing.
//
//	m := transfer.New(append(own, measured.Embedded()...), transfer.Options{})
//	e, err := m.Predict(transfer.Query{Job: job, Config: config}, transfer.Throughput)
//	// e.Value {820, 950, 1100} samples/s; e.Basis[0].Measured "1, 2, 4 GPUs of T4, batch 32…128"
//	// e.Extrapolates {"16 GPUs: measured 1…4"}
//
// # The model
//
// The log of the quantity y, per GPU where it is a rate, is a Gaussian process (Rasmussen and Williams 2006, algorithm 2.1)
// over job, device, site, K GPUs on N nodes and b samples a step and GPU. CPU jobs have K CPUs. With u = log2 K, v = log2 N:
//
//	y = m + level + batch(b) + loss(u, v, b) + oddness(K, N) + noise
//
// m is linear in log parameters, the device's log peaks (tensor cores, FP32, memory bandwidth), log b, u and v. The parts are
// independent Gaussian processes, each a sum over how far it is shared: by all trainings, by similar jobs (ρ_J), by similar
// devices (ρ_D), by both, by the cluster, and by the group, which is one model and data set on one device at one site:
//
//   - level: constants, and slopes over the device's peaks;
//   - batch: a slope over log b and smooth curves around it (squared exponentials), ρ_J and ρ_J·ρ_D; a device that is faster
//     (by FP32 and bandwidth) is filled by a larger batch, so that b is counted from where it would be;
//   - loss: nothing at one GPU. Brownian and integrated Brownian motion in u, a step from one GPU to two, a step and Brownian
//     motion over nodes, so that it bends as in T_iter = (T_grad^γ + T_sync^γ)^(1/γ) of Pollux (Qiao et al., OSDI 2021),
//     without its parameters, and so that intervals grow outside of what was measured; a large part differs with b, since
//     more work a GPU hides communication. All of it grows with the device's speed and the job's parameters and falls with
//     b and the speed of the links: what devices share is the time of communication, and not its share of a step;
//   - oddness: of one (K, N), all batches alike: rings, sockets, switches.
//
// ρ_J = Σ shares of equal script, data set, model, family, and of nearness in parameters, layers and data on log scales.
// No job is ever cut off: it counts less. ρ_D is a squared exponential over log peaks plus the device's own share.
//
// Some groups scale smoothly, others do not. What is a group's own (loss, oddness, noise) is multiplied by its roughness s,
// learned when the model is made: each GPU count is foretold from the others, on a grid of s, with a prior from the groups
// of the same source (rough.go). Equal measurements are one point, their median. A point more than three standard deviations
// off its neighbours keeps an effect of its own place, so that it does not bend them (isolate).
//
// The hyper-parameters maximise the density of what is left out (Sundararajan and Keerthi 2001, in whole groups: GPU counts,
// device types, models), Student with 5 degrees of freedom, on the published tables (hyper.go, Fit).
//
// # What an answer means
//
// The interval is for one further measurement, P5 to P95; its log half-width is multiplied by Options.Widen. Of memory the
// upper half is wider by a quarter: too little kills a job. A job is asked of the site that Config.Machine names (a machine,
// or the Source of a publication), else of a machine of the user's: of what is particular to a machine and its groups, two
// of the user's share nine tenths, so that a probe on rented hardware joins the runs at home and takes nothing from them.
// An unknown number of nodes is taken for one per 8 GPUs. Similarity is the prior's correlation with the question, what
// all trainings share left aside. Prior is the posterior variance over the prior's; the rest is shared out among the groups
// by the absolute weights of their points. An answer rests on the 192 most correlated points at most.
//
// More measurements that agree make intervals narrower; ones that disagree may widen them, by way of the roughness, and it
// takes a third GPU count to know how rough a group is. Programs that ignore a GPU, queueing and input stalls are in the
// measurements or nowhere.
//
// How well it does is printed by
//
//	go run ./optimizer/history/transfer/evaluate --data DIR [--cross source]
//
// Median error and coverage over all published tables, one answer a hidden GPU count, two a hidden GPU type; crossed is with
// hyper-parameters fitted without the source that is asked for, and before intervals were widened for what that showed:
//
//	hidden                          as shipped        crossed
//	GPU count, between others       3.9 %, 93.6 %     4.4 %, 90.7 %
//	GPU count, beyond others        8.0 %, 92.7 %    10.7 %, 80.7 %
//	GPU type                       13.4 %, 97.5 %    16.2 %, 81.8 %
//	GPU type but for one GPU       19.1 %, 90.2 %    16.3 %, 82.9 %
//
// So hyper-parameters do profit from the tables that judge them, and where an answer leaves the measured counts or GPU
// types, a training unlike all published ones should expect the second column.
package transfer
