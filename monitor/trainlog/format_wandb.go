package trainlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The transaction log of a W&B run (run-ID.wandb), which an offline run consists of: records in the framing of LevelDB's
// log format, each a message Record of wandb/proto/wandb_internal.proto. Used are its fields history, stats, config, run
// and environment; the summary repeats the last history.

// wandbMagic begins the file: ":W&B", the magic number 0xBEE1 and version 0.
var wandbMagic = []byte{':', 'W', '&', 'B', 0xe1, 0xbe, 0}

func isWandb(first []byte) bool { return bytes.HasPrefix(first, wandbMagic) }

// Framing: blocks of 32 KiB, whose records have a header of checksum (CRC-32 of type and data), length and type.
const (
	wandbBlock  = 32 << 10
	wandbHeader = 7
)

// Types of the parts of a record.
const (
	wholeRecord = iota + 1
	firstPart
	middlePart
	lastPart
)

// wandbReader reads the records of a file in order.
type wandbReader struct {
	src *bufio.Reader
	at  int64 // offset after the bytes consumed
	buf []byte
}

// next returns the data of the next record, valid until the following call; its errors are those of recordReader.next.
func (r *wandbReader) next() ([]byte, error) {
	r.buf = r.buf[:0]
	start := r.at
	for part := 0; ; part++ {
		if left := wandbBlock - r.at%wandbBlock; left < wandbHeader { // the end of a block is filled with zeros
			if err := r.skip(left); err != nil {
				return nil, err
			}
		}
		header, err := r.src.Peek(wandbHeader)
		switch {
		case err == io.EOF && len(header) == 0 && part == 0:
			return nil, io.EOF
		case err == io.EOF:
			return nil, errCutOff
		case err != nil:
			return nil, err
		}
		sum, length, kind := binary.LittleEndian.Uint32(header), int(binary.LittleEndian.Uint16(header[4:])), header[6]
		data, err := r.src.Peek(wandbHeader + length)
		if err == io.EOF {
			return nil, errCutOff
		} else if err != nil {
			return nil, err
		}
		sound := kind >= wholeRecord && kind <= lastPart && r.at%wandbBlock+int64(wandbHeader+length) <= wandbBlock && crc32.ChecksumIEEE(data[6:]) == sum
		begins := kind == wholeRecord || kind == firstPart
		switch at := r.at; {
		case sound && begins && part > 0:
			return nil, &recordError{start, "a record without an end"}
		case sound && !begins && part == 0:
			if err := r.skip(int64(wandbHeader + length)); err != nil {
				return nil, err
			}
			return nil, &recordError{at, "a record without a beginning"}
		case !sound || len(r.buf)+length > maxRecord:
			if err := r.skip(wandbBlock - r.at%wandbBlock); err != nil && err != io.EOF {
				return nil, err
			}
			return nil, &recordError{at, "a damaged record: the rest of its block is skipped"}
		}
		r.buf = append(r.buf, data[wandbHeader:]...)
		if err := r.skip(int64(wandbHeader + length)); err != nil {
			return nil, err
		}
		if kind == wholeRecord || kind == lastPart {
			return r.buf, nil
		}
	}
}

func (r *wandbReader) skip(n int64) error {
	done, err := io.CopyN(io.Discard, r.src, n)
	r.at += done
	return err
}

// readWandb reads the transaction log of a run.
func readWandb(path string, o *parseOptions, out sink) (read, behind int64, err error) {
	src, err := openSource(path)
	if err != nil {
		return 0, 0, err
	}
	defer src.Close()
	records := wandbReader{src: bufio.NewReaderSize(src, 2*wandbBlock)}
	if err := records.skip(int64(len(wandbMagic))); err != nil {
		return 0, 0, fmt.Errorf("it is no W&B run: %w", ErrNoData)
	}
	run := wandbRun{tracker: newTracker(o), out: out, stats: map[string]any{}}
	for n := 1; !out.batchFull(); n++ {
		data, err := records.next()
		broken := new(recordError)
		switch {
		case err == nil:
			if !run.record(data, n) {
				out.bad(n, fmt.Sprintf("byte %d: the record is damaged", records.at))
			}
			continue
		case errors.As(err, &broken), errors.Is(err, errCompressed):
			out.bad(n, err.Error())
			if errors.As(err, &broken) {
				continue
			}
		case errors.Is(err, errCutOff):
			behind = src.read - records.at
		case err != io.EOF:
			return records.at, 0, err
		}
		break
	}
	return records.at, behind, nil
}

// wandbRun converts the records of a run.
type wandbRun struct {
	*tracker
	out   sink
	stats map[string]any // latest system metrics, by names of columns
}

// record processes one Record; it returns false if the message is damaged.
func (w *wandbRun) record(data []byte, n int) bool {
	whole := true
	ok := eachField(data, func(f protoField) {
		if f.kind != protowire.BytesType {
			return
		}
		switch f.num {
		case 2: // HistoryRecord
			whole = w.history(f.bytes, n) && whole
		case 5: // ConfigRecord
			whole = w.setConfig(f.bytes) && whole
		case 7: // StatsRecord
			whole = w.sample(f.bytes) && whole
		case 17: // RunRecord
			whole = eachField(f.bytes, func(f protoField) {
				if f.num == 4 && f.kind == protowire.BytesType {
					whole = w.setConfig(f.bytes) && whole
				}
			}) && whole
		case 26: // EnvironmentRecord
			whole = w.environment(f.bytes) && whole
		}
	})
	return ok && whole
}

// items decodes the repeated items of a message (HistoryItem, ConfigItem, StatsItem): key 1, nested_key 2, value_json 16.
func items(data []byte, field protowire.Number) (values map[string]any, ok bool) {
	values, whole := map[string]any{}, true
	ok = eachField(data, func(f protoField) {
		if f.num != field || f.kind != protowire.BytesType {
			return
		}
		var key string
		var nested []string
		var value []byte
		whole = eachField(f.bytes, func(f protoField) {
			switch {
			case f.kind != protowire.BytesType:
			case f.num == 1:
				key = string(f.bytes)
			case f.num == 2:
				nested = append(nested, string(f.bytes))
			case f.num == 16:
				value = f.bytes
			}
		}) && whole
		if key == "" {
			key = strings.Join(nested, "/")
		}
		if object, ok := decodeObject(append(append([]byte(`{"v":`), value...), '}')); ok && key != "" {
			values[key] = object["v"]
		}
	})
	return values, ok && whole
}

// setConfig takes a ConfigRecord: its field update.
func (w *wandbRun) setConfig(data []byte) bool {
	values, ok := items(data, 1)
	delete(values, "_wandb")
	w.configure(values)
	return ok
}

// history takes a HistoryRecord: one row. _step, _runtime [s] and _timestamp [s since 1970] are W&B's own.
func (w *wandbRun) history(data []byte, n int) bool {
	values, ok := items(data, 1)
	var at time.Time
	stamp, _ := values["_timestamp"].(json.Number)
	if seconds, err := stamp.Float64(); err == nil && seconds > 0 && seconds < 1e11 {
		whole, part := math.Modf(seconds)
		at = time.Unix(int64(whole), int64(part*1e9))
	}
	for own, name := range map[string]string{"_step": "step", "_runtime": "time_so_far"} {
		v, has := values[own]
		delete(values, own)
		if _, said := values[name]; has && !said {
			values[name] = v
		}
	}
	for name := range values {
		if to := w.fields.opts.resolve(name); name != "step" && to.kind == toColumn && to.column == Step {
			delete(values, "step") // the trainer has its own count; _step counts calls of log
		}
	}
	delete(values, "_timestamp")
	for name, v := range w.stats {
		if _, said := values[name]; !said {
			values[name] = v
		}
	}
	w.row(values, n, at, w.out)
	return ok
}

// sample takes a StatsRecord, which applies to the following rows: gpu.N.gpu and cpu are percentages.
func (w *wandbRun) sample(data []byte) bool {
	values, ok := items(data, 3)
	for key, v := range values {
		if rest, isGPU := strings.CutPrefix(key, "gpu."); isGPU {
			if index, isUse := strings.CutSuffix(rest, ".gpu"); isUse {
				w.stats[gpuUtilPrefix+index] = v
			}
		} else if key == "cpu" {
			w.stats[CPUPercent.String()] = v
		}
	}
	return ok
}

// environment takes an EnvironmentRecord: cpu_count 16, cpu_count_logical 17, gpu_type 18, gpu_count 19.
func (w *wandbRun) environment(data []byte) bool {
	machine := map[string]any{}
	ok := eachField(data, func(f protoField) {
		switch {
		case f.num == 17 && f.kind == protowire.VarintType && f.bits > 0:
			machine["cpu_count"] = json.Number(fmt.Sprint(f.bits))
		case f.num == 18 && f.kind == protowire.BytesType && len(f.bytes) > 0:
			machine["device_type"] = string(f.bytes)
		case f.num == 19 && f.kind == protowire.VarintType:
			machine["gpu_count"] = json.Number(fmt.Sprint(f.bits))
		}
	})
	w.configure(machine)
	return ok
}
