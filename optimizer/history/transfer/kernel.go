package transfer

import "math"

// hyper holds the hyper-parameters of one quantity; sd are in log units (0.1 is about 10 %). See doc.go for the
// formula.
type hyper struct {
	// Mean of the prior.
	Mean, MeanParams, MeanCompute, MeanSingle, MeanBandwidth, MeanBatch, MeanStart, MeanWidth, MeanStep, MeanNodes float64
	// BatchPace: shift of the batch size, in octaves, for a device that is e times as fast. Exponents of the loss:
	// over the pace of a device, the link between its GPUs, the batch per GPU, and (natural, per decade) the
	// parameters of the job.
	BatchPace, LossPace, LossLink, LossWork, LossSize float64

	// Level, sd: of all trainings; of a job; of a device; of a job on a device; of a source; of a job in a source; of
	// the group job × device × source; of the slope over the log peaks of a device.
	General, JobLevel, DeviceLevel, JobDevice, SourceLevel, SourceJob, GroupLevel, DeviceSlope float64
	// Single, Tensor and Memory are the weights of FP32, of the tensor cores and of the size of the memory among the
	// peaks, relative to the bandwidth: Single is 0 if all trainings use tensor cores.
	Single, Tensor, Memory float64
	// Batch per GPU, sd per octave of the slope, and sd of the curve around it.
	BatchSlope, BatchCurve, BatchDevice, BatchGroup, BatchLength, BatchGroupLength float64
	// Loss by scaling, sd at one octave of GPUs.
	LossGeneral, LossCluster, LossJob, LossJobDevice, LossGroup float64
	// Shape of the loss: variance, relative to the rough part, of the step from one GPU to several, of the smooth
	// part, of the part over nodes, and of the step from one node to several; share that depends on the batch, and
	// its length in octaves.
	Start, Smooth, Nodes, Step, LossBatch, LossBatchLength float64
	// Oddness of one (GPUs, nodes) count, sd.
	OddCluster, OddGroup, OddBatchLength float64
	// Noise of one measurement, sd.
	Noise float64

	// Similarity of jobs: shares of the correlation due to the same job, data set, model and family; the rest depends
	// on sizes only. SizeLength is in decades.
	ExactShare, DatasetShare, ModelShare, FamilyShare, SizeLength float64
	// ShapeGeneral is the weight of the general part in the same similarity for shapes (batch, loss), which are
	// shared more.
	ShapeGeneral float64
	// Devices: share of the device alone, length over log peaks.
	DeviceOwn, DeviceLength float64
	// Width multiplies the widths of intervals.
	Width float64
}

// jobPair is the similarity of two jobs, 0…1, computed once for many points: for levels, for shapes (batch, loss),
// and 1 or 0 for whether they may belong to one group.
type jobPair struct {
	level, shape, group float64
}

// devicePair is the similarity of two devices: 0…1, the sum of the products of their log peaks, the batch shift of
// each in octaves, and the product of their sensitivities to communication.
type devicePair struct {
	alike, slopes, shiftA, shiftB, sync float64
	same                                bool
}

// jobs returns the similarity of two jobs. Sizes known for both contribute a squared exponential, sizes known for one
// only the factor halfKnown.
func (h *hyper) jobs(a, b trait) jobPair {
	if a == b && a.exact > 0 {
		return jobPair{1, 1, 1}
	}
	near := 1.0
	for i := range a.size {
		w := sizeWeights[i]
		ka, kb := a.size[i] != unknown, b.size[i] != unknown
		switch {
		case ka && kb:
			d := (a.size[i] - b.size[i]) / h.SizeLength
			near *= halfKnown*halfKnown + (1-halfKnown*halfKnown)*math.Exp(-w*d*d/2)
		case ka != kb:
			near *= halfKnown
		}
	}
	total := h.ExactShare + h.DatasetShare + h.ModelShare + h.FamilyShare + 1
	eq := func(x, y int) float64 {
		if x == y && x > 0 {
			return 1
		}
		return 0
	}
	v := (h.ExactShare*eq(a.exact, b.exact) + h.DatasetShare*eq(a.dataset, b.dataset) + h.ModelShare*eq(a.model, b.model) +
		h.FamilyShare*eq(a.family, b.family)*near + near) / total
	return jobPair{level: v, shape: h.ShapeGeneral + (1-h.ShapeGeneral)*v, group: eq(a.dataset, b.dataset)}
}

// halfKnown is the correlation over a size that is known for only one of two jobs.
const halfKnown = 0.7

// sizeWeights are the weights of parameters, layers, samples and MB of data in the distance of two jobs.
var sizeWeights = [sizes]float64{1, 1, 0.5, 0.25}

// devices returns the similarity of two devices; without known peaks a device is similar only to itself.
func (h *hyper) devices(a, b device, same bool) devicePair {
	p := devicePair{same: same, shiftA: h.shift(a), shiftB: h.shift(b), sync: h.sync(a) * h.sync(b)}
	if a.known && b.known {
		c, w, f, m := h.Tensor*(a.compute-b.compute), a.bandwidth-b.bandwidth, h.Single*(a.single-b.single), h.Memory*(a.memory-b.memory)
		p.alike = (1 - h.DeviceOwn) * math.Exp(-(c*c+w*w+f*f+m*m)/(2*h.DeviceLength*h.DeviceLength))
		p.slopes = sq(h.Tensor)*a.compute*b.compute + sq(h.Single)*a.single*b.single + a.bandwidth*b.bandwidth
	}
	if same {
		p.alike = 1
	}
	return p
}

func sq(x float64) float64 { return x * x }

// batchAlike is a squared exponential over octaves of batch per GPU, scaled to 0.25…1; the value for one unknown
// batch is 0.5.
func batchAlike(a, b, length float64) float64 {
	switch {
	case a == b || math.IsNaN(a) && math.IsNaN(b):
		return 1
	case math.IsNaN(a) || math.IsNaN(b):
		return 0.5
	}
	d := (a - b) / length
	return 0.25 + 0.75*math.Exp(-d*d/2)
}

const batchCentre = 5 // log2 of 32

// parts splits a covariance into the part due to the similarity of the places, the part common to all trainings, and
// the part of the group, which its roughness multiplies.
type parts struct{ similar, general, own float64 }

// total returns the covariance for groups of roughness s; own is 0 between groups.
func (c parts) total(s float64) float64 { return c.similar + c.general + s*s*c.own }

// covariance returns the prior covariance of two places without noise: levels, then batch, then loss and oddness
// (doc.go). Places on CPUs and on GPUs share only the general part and a quarter of the job-level variance.
func (h *hyper) covariance(a, b *place, j jobPair, d devicePair) parts {
	return h.covarianceWith(a, b, h.traffic(a), h.traffic(b), j, d)
}

// traffic holds the factors of communication at a place, computed once for many pairs.
type traffic struct{ bytes, work float64 }

func (h *hyper) traffic(p *place) traffic { return traffic{h.bytes(p), h.work(p)} }

// covarianceWith is covariance with the given factors of communication of a and b.
func (h *hyper) covarianceWith(a, b *place, ta, tb traffic, j jobPair, d devicePair) parts {
	if a.cpu != b.cpu {
		return parts{similar: sq(h.JobLevel) * j.level * 0.25, general: sq(h.General)}
	}
	sameSource := a.siteCorrelation(b)
	sameGroup, exactSource, cluster := 0.0, sameSource*j.group, 0.0
	if d.same {
		sameGroup, cluster = exactSource, sameSource
	}
	own := 0.0
	k := sq(h.JobLevel)*j.level + sq(h.DeviceLevel)*d.alike + sq(h.JobDevice)*j.level*d.alike + sq(h.SourceLevel)*sameSource +
		sq(h.SourceJob)*exactSource + sq(h.GroupLevel)*sameGroup + sq(h.DeviceSlope)*(0.3+0.7*j.level)*d.slopes

	za, zb := a.batch-d.shiftA, b.batch-d.shiftB
	lin := 0.0
	if !math.IsNaN(a.batch) && !math.IsNaN(b.batch) {
		lin = (za - batchCentre) * (zb - batchCentre)
	}
	rb := batchAlike(za, zb, h.BatchLength)
	k += j.shape * (sq(h.BatchSlope)*lin + sq(h.BatchCurve)*rb + sq(h.BatchDevice)*d.alike*rb)
	if sameGroup > 0 {
		k += sameGroup * sq(h.BatchGroup) * batchAlike(a.batch, b.batch, h.BatchGroupLength)
	}

	m, w := min(a.width, b.width), max(a.width, b.width)
	if m > 0 {
		scope := (sq(h.LossGeneral)+sq(h.LossCluster)*cluster)*ta.bytes*tb.bytes + sq(h.LossJob)*j.shape + sq(h.LossJobDevice)*j.shape*d.alike
		shape := h.Start + m + h.Smooth*m*m*(3*w-m)/6
		if v := min(a.nodes, b.nodes); v > 0 {
			shape += h.Step + h.Nodes*v
		}
		shape *= ta.work * tb.work * d.sync * (1 - h.LossBatch + h.LossBatch*batchAlike(a.batch, b.batch, h.LossBatchLength))
		k += scope * shape
		own = sq(h.LossGroup) * sameGroup * shape
		if math.Abs(a.width-b.width) < 1e-3 && math.Abs(a.nodes-b.nodes) < 1e-3 {
			same := batchAlike(a.batch, b.batch, h.OddBatchLength)
			k += sq(h.OddCluster) * cluster * same
			own += sq(h.OddGroup) * sameGroup * same
		}
	}
	return parts{similar: k, general: sq(h.General), own: own}
}

// mean returns the prior mean at a place.
func (h *hyper) mean(p *place, d device) float64 {
	m := h.Mean
	if p.trait.size[0] != unknown {
		m += h.MeanParams * (p.trait.size[0] - 7.5)
	}
	if d.known {
		m += h.MeanCompute*d.compute + h.MeanSingle*d.single + h.MeanBandwidth*d.bandwidth
	}
	if !math.IsNaN(p.batch) {
		m += h.MeanBatch * (p.batch - h.shift(d) - batchCentre)
	}
	if p.width > 0 {
		m += (h.MeanStart + h.MeanWidth*p.width) * h.work(p) * h.bytes(p) * h.sync(d)
	}
	if p.nodes > 0 {
		m += (h.MeanStep + h.MeanNodes*p.nodes) * h.work(p) * h.bytes(p) * h.sync(d)
	}
	return m
}

// shift returns the difference in octaves between the batch that saturates a device and that of a device of pace 0.
func (h *hyper) shift(d device) float64 { return h.BatchPace * d.pace() / math.Ln2 }

// sync returns the relative weight of communication in a step on a device: a faster device waits longer for the same
// bytes.
func (h *hyper) sync(d device) float64 { return math.Exp(h.LossPace*d.pace() - h.LossLink*d.link) }

// work returns the factor by which the batch size of a place reduces the weight of communication.
func (h *hyper) work(p *place) float64 {
	if math.IsNaN(p.batch) {
		return 1
	}
	return math.Exp2(-h.LossWork * max(-8, min(8, p.batch-batchCentre)))
}

// bytes returns the relative amount of communication for the parameters of a job.
func (h *hyper) bytes(p *place) float64 {
	if p.trait.size[0] == unknown {
		return 1
	}
	return math.Exp(h.LossSize * (p.trait.size[0] - 7.5))
}
