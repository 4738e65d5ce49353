package transfer

// nearThroughput holds the hyper-parameters of Throughput for near questions, found by Fit except for those listed in assumed:
//
//	go run ./internal/gen transfer --data DIR --fit throughput
//
// Intervals have the width of the posterior: nine of ten errors are then within 0.7 to 1.1 of it, by case.
var nearThroughput = hyper{
	Mean: 4, MeanParams: -0.901, MeanCompute: 0.2, MeanSingle: 0.3, MeanBandwidth: 0.4, MeanBatch: 0.5,
	MeanStart: -0.182, MeanWidth: -0.146, BatchPace: 0.429, LossPace: 0.166, LossLink: 0.179, LossWork: 0.111,
	LossSize: 0.0799, General: 0.271, JobLevel: 0.633, DeviceLevel: 0.433, JobDevice: 0.543, SourceLevel: 0.2,
	SourceJob: 0.15, GroupLevel: 0.1, DeviceSlope: 0.5, Single: 1, Tensor: 1, BatchSlope: 0.7, BatchCurve: 0.274,
	BatchDevice: 0.626, BatchGroup: 0.143, BatchLength: 3.82, BatchGroupLength: 1.81, LossGeneral: 0.0196,
	LossCluster: 0.0204, LossJob: 0.014, LossJobDevice: 0.016, LossGroup: 0.06, Start: 8.31, Smooth: 0.626,
	Nodes: 3.76, Step: 13.3, LossBatch: 0.889, LossBatchLength: 2.71, OddCluster: 0.00646, OddGroup: 0.06,
	OddBatchLength: 2.5, Noise: 0.085, ExactShare: 0.5, DatasetShare: 0.2, ModelShare: 0.5, FamilyShare: 11.5,
	SizeLength: 1.2, ShapeGeneral: 0.5, DeviceOwn: 0.0276, DeviceLength: 5.01, Width: 1,
}

// farHypers holds the hyper-parameters of far questions where they differ. They were fitted to the embedded tables with
// the groups of a user's own jobs among those left out (--fit-points 4); JobDevice, DeviceLevel, BatchSlope, BatchCurve
// and BatchDevice were then lowered by up to 20 %, until the intervals of these jobs held about 95 %. MeanSingle and
// MeanBandwidth are a compromise between the tables, and the scaling over GPU counts is that of near questions. BatchPace
// was then selected by the predictive density of the table of Sia, which is not embedded.
var farHypers = map[Quantity]hyper{
	Throughput: nearThroughput.with(func(h *hyper) {
		h.Mean, h.MeanParams, h.MeanCompute, h.MeanSingle, h.MeanBandwidth = 4.06, -1, 0, 0.6, 0.35
		h.MeanBatch, h.BatchPace, h.General, h.JobLevel, h.DeviceLevel = 0.358, 0, 0.274, 0.77, 0.3
		h.JobDevice, h.DeviceSlope, h.Tensor, h.Memory, h.BatchSlope = 0.75, 0.121, 0.166, 0.3, 0.75
		h.BatchCurve, h.BatchDevice, h.BatchGroup, h.BatchLength, h.BatchGroupLength = 0.33, 0.42, 0.148, 6.01, 1.27
		h.ModelShare, h.FamilyShare, h.SizeLength, h.ShapeGeneral, h.DeviceOwn = 0.449, 9.03, 1.08, 0.581, 0.07
		h.DeviceLength, h.Width = 6.59, 0.97
	}),
}

// hypers holds the hyper-parameters per quantity. Those of Trainings were found like nearThroughput, without the exponents of the
// loss, because a fit with them predicted new devices worse. No published table determines the other quantities: the
// values of UnitRate are of the order of Throughput's and those of memory, start-ups and restarts are assumed; the user's
// own runs soon outweigh them.
var hypers = map[Quantity]hyper{
	Throughput: nearThroughput,
	Trainings: {
		Mean: -10.7, MeanParams: -1, MeanCompute: 0.5, MeanBandwidth: 0.5, MeanWidth: -0.146, General: 0.44,
		JobLevel: 1.44, DeviceLevel: 0.391, JobDevice: 0.0228, SourceLevel: 0.2, SourceJob: 0.05, GroupLevel: 0.05,
		DeviceSlope: 0.236, Tensor: 1, BatchSlope: 0.555, BatchCurve: 0.582, BatchDevice: 0.0226, BatchGroup: 0.0781,
		BatchLength: 7.68, BatchGroupLength: 0.174, LossGeneral: 0.114, LossCluster: 0.00645, LossJob: 0.0139,
		LossJobDevice: 0.0187, LossGroup: 0.00278, Start: 0.621, Smooth: 0.143, Nodes: 0.37, Step: 0.585,
		LossBatch: 0.717, LossBatchLength: 4.81, OddCluster: 0.0151, OddGroup: 0.00918, OddBatchLength: 3.43,
		Noise: 0.0462, ExactShare: 0.1, DatasetShare: 0.118, ModelShare: 0.157, FamilyShare: 0.775, SizeLength: 0.436,
		ShapeGeneral: 0.459, DeviceOwn: 0.113, DeviceLength: 0.739, Width: 1.3,
	},
	UnitRate: {
		Mean: -3, MeanParams: -0.5, MeanCompute: 0.2, MeanSingle: 0.3, MeanBandwidth: 0.4, MeanBatch: 0.3,
		BatchPace: 0.3, LossPace: 0.2, LossLink: 0.2, LossSize: 0.1, LossWork: 0.1, MeanStart: -0.05, MeanStep: -0.1,
		MeanWidth: -0.1, MeanNodes: -0.1, General: 4, JobLevel: 1.2, DeviceLevel: 0.4, JobDevice: 0.4,
		SourceLevel: 0.2, SourceJob: 0.15, GroupLevel: 0.1, DeviceSlope: 0.3, Single: 1, Tensor: 1, BatchSlope: 0.4,
		BatchCurve: 0.6, BatchDevice: 0.247, BatchGroup: 0.165, BatchLength: 3, BatchGroupLength: 0.91,
		LossGeneral: 0.05, LossCluster: 0.0607, LossJob: 0.05, LossJobDevice: 0.0799, LossGroup: 0.1, Start: 1,
		Smooth: 0.3, Nodes: 1.5, Step: 5, LossBatch: 0.622, LossBatchLength: 1.21, OddCluster: 0.02, OddGroup: 0.0495,
		OddBatchLength: 2.5, Noise: 0.08, ExactShare: 0.1, DatasetShare: 0.3, ModelShare: 1, FamilyShare: 2,
		SizeLength: 1.5, ShapeGeneral: 0.292, DeviceOwn: 0.2, DeviceLength: 1, Width: 1,
	},
	HostMemory: memory,
	GPUMemory: memory.with(func(h *hyper) {
		h.Mean, h.MeanParams, h.MeanBatch, h.MeanWidth, h.General = 2, 0.4, 0.35, 0, 0.6
		h.JobLevel, h.DeviceLevel, h.JobDevice, h.BatchSlope, h.BatchCurve = 0.7, 0.1, 0.1, 0.15, 0.3
		h.BatchDevice, h.LossGeneral, h.LossCluster, h.LossJob, h.LossJobDevice = 0.05, 0.02, 0.02, 0.02, 0.02
		h.LossGroup = 0.03
	}),
	startup: overheads,
	restart: overheads,
}

// memory holds the hyper-parameters of HostMemory.
var memory = hyper{
	Mean: 1.5, MeanParams: 0.2, MeanBatch: 0.1, MeanWidth: 0.05, General: 0.8, JobLevel: 0.8, DeviceLevel: 0.05,
	JobDevice: 0.05, SourceLevel: 0.2, SourceJob: 0.15, GroupLevel: 0.1, DeviceSlope: 0.05, Tensor: 1,
	BatchSlope: 0.1, BatchCurve: 0.15, BatchDevice: 0.03, BatchGroup: 0.165, BatchLength: 3, BatchGroupLength: 0.91,
	LossGeneral: 0.05, LossCluster: 0.0607, LossJob: 0.05, LossJobDevice: 0.0799, LossGroup: 0.1, Start: 1,
	Smooth: 0.3, Nodes: 1.5, Step: 5, LossBatch: 0.622, LossBatchLength: 1.21, OddCluster: 0.02, OddGroup: 0.0495,
	OddBatchLength: 2.5, Noise: 0.08, ExactShare: 0.1, DatasetShare: 0.3, ModelShare: 1, FamilyShare: 2,
	SizeLength: 1.5, ShapeGeneral: 0.292, DeviceOwn: 0.2, DeviceLength: 1, Width: 1,
}

// overheads are assumed: start-ups of a training scatter by a third, those of trainings with one framework by a factor
// of two, and the mean of all is known to a factor of five only.
var overheads = hyper{Mean: 2, General: 1.6, JobLevel: 0.7, DeviceLevel: 0.2, SourceLevel: 0.3, Noise: 0.3, ExactShare: 0.5, DatasetShare: 0.5, ModelShare: 1,
	FamilyShare: 1, SizeLength: 1.5, ShapeGeneral: 0.5, DeviceOwn: 0.2, DeviceLength: 1, BatchLength: 1, BatchGroupLength: 1, LossBatchLength: 1, OddBatchLength: 1, Width: 1}

// noise returns the variance of the mean of a point, before roughness.
func (h *hyper) noise(p *point) float64 { return sq(h.Noise)/p.count + p.scatter + 1e-6 }

// with returns the hyper-parameters with some of them set to other values.
func (h hyper) with(set func(*hyper)) hyper {
	set(&h)
	return h
}
