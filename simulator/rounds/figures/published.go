package figures

// published are the values of figures of the paper and of its repository, in hours. They were read back from the vector paths of
// the PDF figures (makespan: from the notebook's output) in github.com/stanford-futuredata/gavel at c4fa4009 of 2022-01-15, MIT
// licence. Markers that only say that a line goes on are left out.
var published = []Figure{
	{Name: "8", Also: "single-las", About: "least attained service, jobs on one device", file: "continuous_jobs/single_gpu_las_v100=36_p100=36_k80=36", step: 0.4, Lines: []Line{
		{"max_min_fairness", "", "mean_jct_s",
			[]float64{22.688, 22.786, 22.837, 22.964, 22.834, 22.874, 22.895, 22.915, 22.967, 22.919, 23.237, 34.751, 60.056, 91.293}},
		{"gandiva", "", "mean_jct_s",
			[]float64{17.371, 17.437, 17.474, 17.479, 17.452, 17.414, 17.416, 17.484, 17.698, 18.335, 23.275, 27.605, 32.226, 39.487}},
		{"allox", "", "mean_jct_s",
			[]float64{17.371, 17.437, 17.471, 17.37, 16.956, 16.388, 16.031, 16.028, 16.114, 16.533, 17.697, 19.919, 21.704, 23.536}},
		{"max_min_fairness_perf", "", "mean_jct_s",
			[]float64{17.371, 17.437, 17.472, 17.383, 16.95, 16.301, 15.816, 15.736, 15.917, 16.257, 16.837, 18.019, 20.523, 26.416, 37.639, 54.314}},
		{"max_min_fairness_packed", "", "mean_jct_s",
			[]float64{18.194, 19.047, 19.532, 19.568, 18.615, 17.152, 16.133, 15.848, 15.982, 16.323, 17.098, 17.922, 18.608, 19.077, 19.585, 20.51, 22.692, 27.796, 33.476}},
	}},
	{Name: "9", Also: "multi-las", About: "least attained service, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_las_v100=36_p100=36_k80=36", step: 0.2, multi: true, Lines: []Line{
		{"max_min_fairness", "", "mean_jct_s",
			[]float64{23.913, 23.863, 23.895, 24.022, 24.143, 24.083, 24.134, 24.255, 24.56, 25.216, 26.342, 36.696, 72.43}},
		{"gandiva", "", "mean_jct_s",
			[]float64{17.291, 17.316, 17.378, 17.453, 17.585, 17.767, 17.996, 18.426, 19.269, 20.802, 23.941, 35.159, 57.963}},
		{"max_min_fairness_perf", "", "mean_jct_s",
			[]float64{17.291, 17.313, 17.332, 17.275, 17.217, 17.086, 17.022, 17.193, 17.757, 18.693, 20.535, 26.272, 32.519, 45.973}},
		{"max_min_fairness_packed", "", "mean_jct_s",
			[]float64{17.484, 17.73, 17.93, 17.94, 17.834, 17.49, 17.238, 17.179, 17.5, 18.153, 19.365, 21.818, 25.54, 32.734, 63.973, 87.816}},
	}},
	{Name: "10", Also: "multi-ftf", About: "finish-time fairness, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_ftf_v100=36_p100=36_k80=36", step: 0.2, multi: true, Lines: []Line{
		{"finish_time_fairness", "", "mean_jct_s",
			[]float64{23.913, 23.867, 23.899, 24.01, 24.169, 24.102, 24.134, 24.256, 25.456, 25.823, 24.003, 38.155, 62.095}},
		{"finish_time_fairness_perf", "", "mean_jct_s",
			[]float64{17.291, 17.309, 17.332, 17.257, 17.214, 17.136, 17.098, 17.236, 17.71, 18.631, 20.198, 22.97, 28.649, 37.046, 47.868}},
	}},
	{Name: "single-ftf", About: "finish-time fairness, jobs on one device", file: "continuous_jobs/single_gpu_ftf_v100=36_p100=36_k80=36", step: 0.4, Lines: []Line{
		{"finish_time_fairness", "", "mean_jct_s",
			[]float64{22.688, 22.786, 22.838, 22.969, 22.818, 22.823, 22.858, 22.868, 22.903, 22.863, 23.245, 34.705, 60.474, 83.223, 106.36}},
		{"finish_time_fairness_perf", "", "mean_jct_s",
			[]float64{17.371, 17.437, 17.471, 17.396, 17.002, 16.437, 16.102, 16.146, 15.963, 16.924, 17.809, 19.258, 21.943, 27.893, 39.268, 56.067, 77.309}},
		{"allox", "", "mean_jct_s",
			[]float64{17.371, 17.437, 17.471, 17.37, 16.956, 16.388, 16.031, 16.028, 16.114, 16.533, 17.697, 19.919, 21.704, 23.536}},
	}},
	{Name: "single-fifo", About: "first in, first out, jobs on one device", file: "continuous_jobs/single_gpu_fifo_v100=36_p100=36_k80=36", step: 0.4, Lines: []Line{
		{"fifo", "", "mean_jct_s",
			[]float64{17.371, 17.437, 17.482, 17.533, 17.986, 18.073, 18.174, 19.686, 21.831, 23.84, 46.417, 92.004}},
		{"fifo_perf", "", "mean_jct_s",
			[]float64{15.038, 15.108, 15.141, 15.161, 15.181, 15.201, 15.299, 15.507, 15.836, 16.388, 17.526, 24.102, 57.079, 108.26}},
		{"fifo_packed", "", "mean_jct_s",
			[]float64{15.038, 15.108, 15.141, 15.161, 15.181, 15.201, 15.299, 15.507, 15.836, 16.388, 17.516, 20.111, 41.745, 86.138}},
	}},
	{Name: "multi-fifo", About: "first in, first out, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_fifo_v100=36_p100=36_k80=36", step: 0.2, multi: true, Lines: []Line{
		{"fifo", "", "mean_jct_s",
			[]float64{17.294, 17.325, 17.553, 17.844, 18.363, 19.255, 20.521, 25.459, 28.497, 31.076, 114.42}},
		{"fifo_perf", "", "mean_jct_s",
			[]float64{15.559, 15.583, 15.635, 15.709, 15.831, 16.009, 16.322, 17.046, 18.523, 20.376, 23.768, 39.322}},
		{"fifo_packed", "", "mean_jct_s",
			[]float64{15.559, 15.583, 15.635, 15.709, 15.831, 16.009, 16.322, 17.022, 18.432, 20.254, 23.432, 34.16}},
	}},
	{Name: "priorities", About: "two priorities, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_las_priorities_v100=36_p100=36_k80=36", step: 0.2, multi: true, priorities: true, Lines: []Line{
		{"max_min_fairness_water_filling", "", "mean_jct_low_s",
			[]float64{24.431, 24.367, 24.476, 24.586, 24.698, 24.705, 24.733, 24.808, 24.971, 25.48, 27.979, 54.356}},
		{"max_min_fairness_water_filling", "", "mean_jct_high_s",
			[]float64{27.9, 27.814, 27.924, 28.088, 28.298, 28.296, 28.242, 28.34, 28.438, 28.586, 28.874, 28.461, 28.496}},
		{"max_min_fairness_water_filling_perf", "", "mean_jct_low_s",
			[]float64{17.557, 17.593, 17.612, 17.554, 17.43, 17.244, 17.111, 17.152, 17.419, 18.041, 19.276, 20.181}},
		{"max_min_fairness_water_filling_perf", "", "mean_jct_high_s",
			[]float64{20.064, 20.103, 20.102, 19.974, 19.751, 19.397, 19.172, 18.963, 18.898, 18.922, 19.004, 18.552}},
	}},
	{Name: "ideal", Also: "13a", About: "rounds against ideal shares, jobs on one device", file: "continuous_jobs/single_gpu_las_ideal_v100=36_p100=36_k80=36", step: 0.4, Lines: []Line{
		{"max_min_fairness_perf", "rounds of 360 s", "mean_jct_s",
			[]float64{17.371, 17.437, 17.472, 17.383, 16.95, 16.301, 15.816, 15.736, 15.917, 16.257, 16.837, 18.019, 20.523, 26.416, 37.639, 54.314}},
		{"max_min_fairness_perf", "ideal", "mean_jct_s",
			[]float64{19.498, 18.408, 17.924, 17.628, 17.486, 17.431, 17.451, 17.503, 17.629, 17.774, 18.109, 19.044, 21.482, 27.931, 39.726, 56.861}},
	}},
	{Name: "multi-ideal", About: "rounds against ideal shares, jobs on 1 to 8 devices", file: "continuous_jobs/multi_gpu_las_ideal_v100=36_p100=36_k80=36", step: 0.2, multi: true, Lines: []Line{
		{"max_min_fairness_perf", "rounds of 360 s", "mean_jct_s",
			[]float64{17.291, 17.313, 17.332, 17.275, 17.217, 17.086, 17.022, 17.193, 17.757, 18.693, 20.535, 26.272, 32.519, 45.973}},
		{"max_min_fairness_packed", "rounds of 360 s", "mean_jct_s",
			[]float64{17.484, 17.73, 17.93, 17.94, 17.834, 17.49, 17.238, 17.179, 17.5, 18.153, 19.365, 21.818, 25.54, 32.734, 40.96, 43.449}},
		{"max_min_fairness_perf", "ideal", "mean_jct_s",
			[]float64{24.237, 22.851, 22.512, 22.472, 22.503, 22.661, 22.75, 22.931, 23.248, 23.913, 25.469, 29.776, 34.947, 39.98, 53.209}},
		{"max_min_fairness_packed", "ideal", "mean_jct_s",
			[]float64{25.358, 25.831, 27.812, 30.031, 32.137, 33.964, 35.207, 36.091, 36.496, 36.75, 36.913, 37.062, 37.27, 37.999, 40.383}},
	}},
	{Name: "rounds", Also: "13b", About: "lengths of rounds, jobs on one device", file: "continuous_jobs/single_gpu_las_perf_round_sweep_v100=36_p100=36_k80=36", step: 0.4, Lines: []Line{
		{"max_min_fairness_perf", "rounds of 360 s", "mean_jct_s",
			[]float64{17.371, 17.437, 17.472, 17.383, 16.95, 16.301, 15.816, 15.736, 15.917, 16.257, 16.837, 18.019, 20.523, 26.416, 37.639, 54.314}},
		{"max_min_fairness_perf", "rounds of 720 s", "mean_jct_s",
			[]float64{17.397, 17.445, 17.477, 17.378, 16.939, 16.282, 15.786, 15.695, 15.879, 16.214, 16.856, 18.105, 20.727, 26.42, 38.228, 64.164}},
		{"max_min_fairness_perf", "rounds of 1440 s", "mean_jct_s",
			[]float64{17.514, 17.562, 17.591, 17.476, 17.019, 16.351, 15.843, 15.708, 15.936, 16.357, 17.12, 18.607, 21.489, 27.49, 43.197}},
		{"max_min_fairness_perf", "rounds of 2880 s", "mean_jct_s",
			[]float64{17.61, 17.617, 17.606, 17.477, 16.96, 16.244, 15.745, 15.633, 15.808, 16.214, 16.822, 18.158, 20.461, 28.056, 89.939}},
	}},
	{Name: "rounds-packed", About: "lengths of rounds, pairs of jobs on one device", file: "continuous_jobs/single_gpu_las_packed_round_sweep_v100=36_p100=36_k80=36", step: 0.4, Lines: []Line{
		{"max_min_fairness_packed", "rounds of 360 s", "mean_jct_s",
			[]float64{18.194, 19.047, 19.532, 19.568, 18.615, 17.152, 16.133, 15.848, 15.982, 16.323, 17.098, 17.922, 18.608, 19.077, 19.585, 20.51, 22.692, 27.796, 58.984}},
		{"max_min_fairness_packed", "rounds of 720 s", "mean_jct_s",
			[]float64{18.091, 18.541, 18.687, 18.613, 17.904, 16.764, 15.963, 15.769, 15.945, 16.312, 17.231, 18.415, 19.218, 19.557, 19.911, 20.78, 23.039, 28.144, 58.881}},
		{"max_min_fairness_packed", "rounds of 1440 s", "mean_jct_s",
			[]float64{17.985, 17.995, 17.986, 18.002, 17.519, 16.608, 15.954, 15.833, 16.105, 16.585, 17.698, 18.962, 19.774, 19.934, 20.224, 21.181, 23.566, 29.439, 59.47}},
		{"max_min_fairness_packed", "rounds of 2880 s", "mean_jct_s",
			[]float64{17.897, 17.775, 17.689, 17.532, 17.017, 16.284, 15.811, 15.797, 16.107, 16.717, 17.935, 19.458, 20.31, 20.473, 20.685, 21.926, 24.605, 31.532, 86.505}},
	}},
	{Name: "makespan", About: "makespan of jobs that all come at once, on 1 to 8 devices", file: "makespan/multi_gpu_v100=36_p100=36_k80=36", step: 100, multi: true, static: true, Lines: []Line{
		{"fifo", "", "makespan_s",
			[]float64{182.32, 229.43, 295.56, 350.5, 426.58, 506.23, 619.52}},
		{"gandiva", "", "makespan_s",
			[]float64{166.61, 178.88, 199.87, 224.1, 263.87, 301.28, 347.34}},
		{"min_total_duration_perf", "", "makespan_s",
			[]float64{161.16, 161.16, 161.16, 161.29, 169.42, 194.99, 244.23}},
		{"min_total_duration_packed", "", "makespan_s",
			[]float64{163.61, 163.57, 161.17, 168.5, 168.13, 183.15, 226.22}},
	}},
}

// runtimes are seconds of a decision in figure 12 (solver_scaling/multi_gpu_las and multi_gpu_hierarchical), for 16, 32, 64, … jobs
// on a quarter as many devices of each of three types.
var runtimes = []Line{
	{"max_min_fairness_perf", "", "", []float64{0.0084073, 0.0083561, 0.010014, 0.013031, 0.017595, 0.032066, 0.045816, 0.083412}},
	{"max_min_fairness_packed", "", "", []float64{0.053588, 0.10941, 0.28871, 1.0499, 5.2655, 34.082, 295.79}},
	{"hierarchical_fairness_perf", "", "", []float64{0.053336, 0.079593, 0.13819, 0.57592, 0.85352, 5.4111, 27.075, 97.279}},
	{"hierarchical_fairness_packed", "", "", []float64{0.27858, 0.73052, 4.8089, 31.76, 285.59}},
}
