package trainlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
)

// Hugging Face Trainer: trainer_state.json with its log_history, or log_history alone as a JSON list. Epochs are
// completed fractions; training and evaluation values are in separate entries.

// detectHuggingFace recognises the file name trainer_state.json, the key log_history, or a JSON list of entries with
// epochs.
func detectHuggingFace(h *head) int {
	first := h.first()
	if h.path == "trainer_state.json" && len(first) > 0 && first[0] == '{' {
		return 95
	}
	all := append(bytes.Join(h.lines, []byte("\n")), h.rest...)
	switch {
	case len(first) == 0:
		return 0
	case first[0] == '{' && bytes.Contains(all, []byte(`"log_history"`)):
		return 95
	case first[0] == '[' && strings.HasSuffix(h.path, ".json"),
		first[0] == '[' && bytes.Contains(all, []byte(`"epoch"`)) && bytes.Contains(all, []byte("{")):
		return 60
	}
	return 0
}

func newHuggingFace(o *parseOptions) document { return &huggingFace{opts: o} }

// huggingFace parses the state file of a Hugging Face Trainer.
type huggingFace struct{ opts *parseOptions }

// errNotDocument reports a JSON document that does not contain a log.
var errNotDocument = errors.New("neither an object with log_history nor a list of objects")

// read streams the document twice, with one entry of log_history in memory at a time, because the values that apply
// to all rows (max_steps, num_train_epochs, train_batch_size) follow the list.
func (p *huggingFace) read(src io.ReadSeeker, out sink, salvage bool) error {
	fields := jsonFields{opts: p.opts, fixed: map[Column]float64{}}
	if err := p.pass(src, &fields, nil); err != nil && !salvage {
		return err
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.pass(src, &fields, out)
}

// pass reads the document once, token by token, so that only one value is in memory. It collects the values for all
// rows if out is nil, otherwise it parses the entries. Unrelated keys are decoded and dropped.
func (p *huggingFace) pass(src io.Reader, fields *jsonFields, out sink) error {
	in := &nanReader{src: src}
	dec := json.NewDecoder(in)
	dec.UseNumber()
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('['):
		return p.entries(in, dec, fields, out)
	case json.Delim('{'):
	default:
		return errNotDocument
	}
	found := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if key == "log_history" {
			if tok, err = dec.Token(); err != nil {
				return err
			}
			if tok != json.Delim('[') {
				return errNotDocument
			}
			found = true
			if err := p.entries(in, dec, fields, out); err != nil {
				return err
			}
			continue
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		in.taken()
		if c, ok := documentColumns[key]; ok && out == nil {
			if v, how := parseNumber(value, false); how == readNumber && v > 0 {
				fields.fixed[c] = v
			}
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return err
	}
	if !found {
		return errNotDocument
	}
	return nil
}

// documentColumns are the keys of the document that apply to the whole training.
var documentColumns = map[any]Column{"max_steps": TotalSteps, "num_train_epochs": TotalEpochs, "train_batch_size": BatchSize}

// entries parses the list of log entries, or skips it if out is nil. It returns errBatchFull when the batch limit is
// reached.
func (p *huggingFace) entries(in *nanReader, dec *json.Decoder, fields *jsonFields, out sink) error {
	for n := 1; dec.More(); n++ {
		var entry json.RawMessage
		if err := dec.Decode(&entry); err != nil {
			return err
		}
		in.taken()
		if out == nil {
			continue
		}
		if out.batchFull() {
			return errBatchFull
		}
		object, ok := decodeObject(entry)
		if !ok {
			out.bad(n, "entry is not an object: "+clip(entry))
			continue
		}
		if _, last := object["train_runtime"]; last {
			delete(object, "train_loss") // the mean over the whole training, not the loss at this step
		}
		r, extra, ok := fields.row(object, n, out)
		if !ok {
			continue
		}
		if e, _ := r.Value(Epoch); e == 0 {
			r.Set(Epoch, math.NaN()) // no epoch is complete
		}
		out.row(&r, extra)
	}
	_, err := dec.Token() // the closing bracket
	return err
}
