package trainlog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// columnNames are the canonical names of the numeric columns.
var columnNames = [NumColumns]string{
	Epoch: "epoch", TotalEpochs: "total_epochs", Step: "step", TotalSteps: "total_steps",
	ModelParams: "model_params", ModelLayers: "model_layers", DataCount: "data_count", DataSizeMB: "data_size_mb",
	BatchSize: "batch_size", CPUCount: "cpu_count", GPUCount: "gpu_count",
	TrainLoss: "train_loss", TrainAccuracy: "train_accuracy", TestLoss: "test_loss", TestAccuracy: "test_accuracy",
	EpochTime: "epoch_time", TimeSoFar: "time_so_far", Throughput: "throughput",
	GPUMemoryUsed: "gpu_memory_used_gb", MemoryUsed: "memory_used_gb", CPUPercent: "cpu_percent", CostSoFar: "cost_so_far",
}

// The canonical names of the columns that are not plain numbers.
const (
	timestampName = "timestamp"
	modelName     = "model_name"
	datasetName   = "dataset"
	deviceName    = "device_type"
	gpuUtilPrefix = "gpu_utilization_"
)

// String returns the canonical name of the column, such as "train_loss".
func (c Column) String() string {
	if c < 0 || c >= NumColumns {
		return "column(" + strconv.Itoa(int(c)) + ")"
	}
	return columnNames[c]
}

// tableGPUs is the number of gpu_utilization_n columns of a table: the number of GPUs of the largest machines.
const tableGPUs = 16

// TableColumns returns the names of the columns that Row.Values may have, in their documented order.
func TableColumns() []string {
	columns := []string{"line", timestampName}
	for c := Column(0); c < NumColumns; c++ {
		switch c {
		case ModelParams:
			columns = append(columns, modelName)
		case DataCount:
			columns = append(columns, datasetName)
		case CPUCount:
			columns = append(columns, deviceName)
		}
		columns = append(columns, c.String())
	}
	for g := range tableGPUs {
		columns = append(columns, gpuUtilPrefix+strconv.Itoa(g))
	}
	return columns
}

// signed reports whether the column may be negative.
func (c Column) signed() bool {
	return c == TrainLoss || c == TestLoss || c == TrainAccuracy || c == TestAccuracy
}

// counts reports whether the column contains integers.
func (c Column) counts() bool {
	return c <= DataCount || c == BatchSize || c == CPUCount || c == GPUCount
}

// targetKind is the kind of field that a log's column is stored in.
type targetKind uint8

const (
	toNowhere targetKind = iota
	toColumn
	toSum // added to the row's current value of the column
	toGPUUtil
	toStamp
	toModel
	toDataset
	toDevice
)

// text reports whether the field is not a number.
func (k targetKind) text() bool { return k >= toStamp }

// target is the field of Row that one column of a log is stored in.
type target struct {
	kind   targetKind
	column Column
	gpu    int
	exact  bool // the canonical name, not an alias
}

// aliases maps other names that scripts and frameworks use, normalised by normalizeName, to columns.
var aliases = map[string]Column{
	"epochs_done": Epoch, "epoch_num": Epoch, "epoch_number": Epoch, "current_epoch": Epoch, "ep": Epoch, "train_epoch": Epoch,
	"epochs": TotalEpochs, "num_epochs": TotalEpochs, "n_epochs": TotalEpochs, "max_epochs": TotalEpochs, "epochs_total": TotalEpochs, "num_train_epochs": TotalEpochs,
	"global_step": Step, "iteration": Step, "iter": Step, "steps_done": Step, "current_step": Step, "train_global_step": Step, "trainer_global_step": Step,
	"max_steps": TotalSteps, "num_steps": TotalSteps, "steps_total": TotalSteps, "total_iterations": TotalSteps, "max_iters": TotalSteps,
	"params": ModelParams, "num_params": ModelParams, "n_params": ModelParams, "parameters": ModelParams, "num_parameters": ModelParams, "model_parameters": ModelParams,
	"layers": ModelLayers, "num_layers": ModelLayers,
	"num_samples": DataCount, "n_samples": DataCount, "train_samples": DataCount, "dataset_size": DataCount,
	"data_mb": DataSizeMB, "dataset_size_mb": DataSizeMB,
	"train_batch_size": BatchSize, "batchsize": BatchSize,
	"cpus": CPUCount, "num_cpus": CPUCount, "gpus": GPUCount, "num_gpus": GPUCount, "world_size": GPUCount,
	"loss": TrainLoss, "training_loss": TrainLoss, "loss_train": TrainLoss,
	"accuracy": TrainAccuracy, "acc": TrainAccuracy, "train_acc": TrainAccuracy, "training_accuracy": TrainAccuracy,
	"val_loss": TestLoss, "valid_loss": TestLoss, "validation_loss": TestLoss, "eval_loss": TestLoss, "loss_val": TestLoss, "dev_loss": TestLoss,
	"val_accuracy": TestAccuracy, "val_acc": TestAccuracy, "valid_acc": TestAccuracy, "valid_accuracy": TestAccuracy, "validation_accuracy": TestAccuracy,
	"eval_accuracy": TestAccuracy, "eval_acc": TestAccuracy, "test_acc": TestAccuracy, "dev_accuracy": TestAccuracy,
	"epoch_time_s": EpochTime, "epoch_seconds": EpochTime, "epoch_duration": EpochTime, "time_per_epoch": EpochTime, "seconds_per_epoch": EpochTime,
	"elapsed": TimeSoFar, "elapsed_s": TimeSoFar, "elapsed_time": TimeSoFar, "elapsed_seconds": TimeSoFar, "time_elapsed": TimeSoFar,
	"total_time": TimeSoFar, "wall_time": TimeSoFar, "train_runtime": TimeSoFar, "runtime": TimeSoFar,
	"samples_per_second": Throughput, "samples_per_sec": Throughput, "samples_s": Throughput, "samples_sec": Throughput, "examples_per_second": Throughput,
	"images_per_second": Throughput, "images_per_sec": Throughput, "images_sec": Throughput, "img_s": Throughput, "train_samples_per_second": Throughput,
	"gpu_memory_gb": GPUMemoryUsed, "gpu_mem_gb": GPUMemoryUsed, "gpu_memory_used": GPUMemoryUsed,
	"memory_gb": MemoryUsed, "ram_gb": MemoryUsed, "memory_used": MemoryUsed,
	"cpu_util": CPUPercent, "cpu_utilization": CPUPercent, "cpu_usage": CPUPercent,
	"cost": CostSoFar, "cost_usd": CostSoFar, "total_cost": CostSoFar, "cumulative_cost": CostSoFar,
}

// textAliases maps canonical and other names of the columns that are not plain numbers to their targets.
var textAliases = map[string]targetKind{
	timestampName: toStamp, "time": toStamp, "datetime": toStamp, "date": toStamp, "ts": toStamp, "created_at": toStamp,
	modelName: toModel, "model": toModel, "architecture": toModel, "arch": toModel,
	datasetName: toDataset, "dataset_name": toDataset,
	deviceName: toDevice, "device": toDevice,
}

// columnByName is the inverse of columnNames.
var columnByName = func() map[string]Column {
	m := make(map[string]Column, NumColumns)
	for c, name := range columnNames {
		m[name] = Column(c)
	}
	return m
}()

// normalizeName maps "Train Loss", "train/loss", "train-loss" and "train_loss [nats]" to the same name.
func normalizeName(name string) string {
	if i := strings.IndexAny(name, "(["); i > 0 {
		name = name[:i]
	}
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r > 127 && r != '\ufeff':
			if gap && b.Len() > 0 {
				b.WriteByte('_')
			}
			gap = false
			b.WriteRune(r)
		case r == '%':
			b.WriteString("_percent")
		default:
			gap = true
		}
	}
	return strings.TrimPrefix(b.String(), "_")
}

// resolveName returns the target of a normalised column name among the canonical names and the aliases; the zero
// target without a match.
func resolveName(name string) target {
	if c, ok := columnByName[name]; ok {
		return target{kind: toColumn, column: c, exact: true}
	}
	if k, ok := textAliases[name]; ok {
		exact := name == timestampName || name == modelName || name == datasetName || name == deviceName
		return target{kind: k, exact: exact}
	}
	if c, ok := aliases[name]; ok {
		return target{kind: toColumn, column: c}
	}
	if name == "gpu_utilization" || name == "gpu_util" {
		return target{kind: toGPUUtil}
	}
	for _, prefix := range []string{gpuUtilPrefix, "gpu_util_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if n, err := strconv.Atoi(rest); err == nil && n >= 0 && n < maxGPUs {
				return target{kind: toGPUUtil, gpu: n, exact: prefix == gpuUtilPrefix}
			}
		}
	}
	return target{}
}

// maxGPUs bounds the index in gpu_utilization_n, so that a column name cannot cause a large allocation.
const maxGPUs = 64

// userAliases validates and normalises a map from column names to canonical names. An empty canonical name drops the
// column.
func userAliases(m map[string]string) (map[string]target, error) {
	out := make(map[string]target, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		to := m[name]
		if to == "" {
			out[normalizeName(name)] = target{}
			continue
		}
		t := resolveName(normalizeName(to))
		if t.kind == toNowhere {
			return nil, fmt.Errorf("column alias %q: there is no column %q", name, to)
		}
		t.exact = true
		out[normalizeName(name)] = t
	}
	return out, nil
}
