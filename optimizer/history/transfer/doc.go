// Package transfer predicts the performance of a training on configurations it has not run on, from measurements of
// it and of similar trainings: samples per second, units per second, whole trainings per second, host and GPU memory,
// each with a 90 % interval and the measurements that it is based on.
//
// It stores no data and contains no published figures (package history does), and makes no decisions.
//
//	m := transfer.New(append(own, history.Published()...), transfer.Options{})
//	e, err := m.Predict(transfer.Query{Job: job, Config: config}, transfer.Throughput)
//	// e.Value {820, 950, 1100} samples/s; e.Basis[0].Measured "1, 2, 4 GPUs of T4, batch 32…128"
//	// e.Extrapolates {"16 GPUs: measured 1…4"}
//
// # The model
//
// The log of the quantity y, per GPU for rates, is a Gaussian process (Rasmussen and Williams 2006, algorithm 2.1)
// over job, device, site, K GPUs on N nodes and b samples per step and GPU. CPU jobs have K CPUs. With u = log2 K,
// v = log2 N:
//
//	y = m + level + batch(b) + loss(u, v, b) + oddness(K, N) + noise
//
// m is linear in log parameters, the device's log peaks, log b, u and v. The
// parts are independent Gaussian processes. Each is a sum over the scopes that share it: all trainings, similar jobs
// (ρ_J), similar devices (ρ_D), both, the cluster, and the group, which is one model and data set on one device at
// one site:
//
//   - level: constants, and slopes over the device's peaks;
//   - batch: a slope over log b and smooth curves around it (squared exponentials), ρ_J and ρ_J·ρ_D; a faster device
//     (by FP32 and bandwidth) needs a larger batch to be saturated, so b is shifted accordingly (not for far questions);
//   - loss: zero for one GPU. Brownian and integrated Brownian motion in u, a step from one GPU to two, a step and
//     Brownian motion over nodes. It thus bends like T_iter = (T_grad^γ + T_sync^γ)^(1/γ) of Pollux (Qiao et al.,
//     OSDI 2021) without its parameters, and intervals grow outside the measured range. A large part depends on b,
//     since more work per GPU hides communication. All of it grows with the device's speed and the job's parameters
//     and decreases with b and the speed of the links: devices share the time of communication, not its share of a
//     step;
//   - oddness: of one (K, N), common to all batch sizes: rings, sockets, switches.
//
// ρ_J is a weighted sum over equal script, data set, model, family, and proximity in parameters, layers and data on
// log scales. No job is excluded; dissimilar ones have less weight. ρ_D is a squared exponential over log peaks
// (for far questions tensor cores with a sixth of the weight of FP32, and the memory size) plus a share of the device alone;
// the links between GPUs enter through the loss.
//
// Some groups scale smoothly, others do not. The parts of the group itself (loss, oddness, noise) are multiplied by
// its roughness s, which is estimated when a quantity is first queried: each GPU count is predicted from the others,
// on a grid of s, with a prior from the groups of the same source (rough.go). Equal measurements are merged into one
// point, their median. A point more than three standard deviations from its neighbours gets an effect of its own, so
// that it does not distort them (isolate).
//
// The hyper-parameters maximise the leave-out predictive density (Sundararajan and Keerthi 2001, for whole groups:
// GPU counts, device types, models), Student with 5 degrees of freedom, on the published tables (hyper.go, Fit).
//
// # Interpretation of an estimate
//
// The interval, P5 to P95, is for one further measurement; its log half-width is multiplied by Options.Widen. For
// memory the upper half is wider by a quarter, since too little memory kills a job. A query refers to the site named
// by Config.Machine (a machine, or the Source of a publication), else to another machine of the user's. Of the
// effects specific to a machine and its groups, two of the user's machines share nine tenths, so that a probe on
// rented hardware complements the runs at home. An unknown number of nodes is assumed to be one per 8 GPUs.
// Similarity is the prior correlation with the query, without the part that all trainings share. Prior is the ratio
// of posterior to prior variance; the rest is distributed over the groups by the absolute weights of their points. An
// estimate uses at most the 192 most correlated points.
//
// Additional measurements that agree make intervals narrower, with few exceptions: through the roughness, which is
// estimated from two GPU counts on, an agreeing one may also confirm that others disagree. In 100,000 drawn cases 0.5 %
// widened, 11 of them by more than a tenth, and none by more than 1.36 times. Programs that ignore a GPU, queueing and input
// stalls are modelled only as far as the measurements contain them.
//
// The accuracy is printed by
//
//	go run ./internal/gen transfer --points 4 [--data DIR] [--cross source]
//
// and listed in docs/prediction.md.
//
// # Near and far questions
//
// Throughput has two sets of hyper-parameters: for trainings measured on the device in question (near), fitted to
// GPU counts and batch sizes left out, and for all others (far), fitted to device types and models left out, among them
// jobs of a user's own of which only two measurements on other devices are visible. In the far set tensor peaks have
// no weight in m. One set for both predicted new devices better and measured ones worse than before.
package transfer
