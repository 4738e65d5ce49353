package swf

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/order"
)

// writer writes a trace: the header first, then jobs. Close must be called; it returns the first error of any call.
type writer struct {
	out  *bufio.Writer
	line []byte
	err  error
}

// newWriter returns a writer to w, which it does not close.
func newWriter(w io.Writer) *writer { return &writer{out: bufio.NewWriterSize(w, 1<<16)} }

// Header writes comments. Line breaks in labels and texts are replaced by spaces.
func (w *writer) Header(h Header) error {
	oneLine := strings.NewReplacer("\n", " ", "\r", " ")
	for _, c := range h {
		text := ";"
		switch {
		case c.Label != "":
			text = "; " + c.Label + ": " + c.Text
		case c.Text != "":
			text = ";       " + c.Text
		}
		w.put(append(append(w.line[:0], oneLine.Replace(text)...), '\n'))
	}
	return w.err
}

// Write writes one job.
func (w *writer) Write(rec *Record) error {
	b := w.line[:0]
	for i, v := range rec {
		if i > 0 {
			b = append(b, ' ')
		}
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			b = strconv.AppendInt(b, int64(v), 10)
		} else {
			b = strconv.AppendFloat(b, v, 'f', -1, 64)
		}
	}
	w.put(append(b, '\n'))
	return w.err
}

// put writes bytes unless an earlier call failed.
func (w *writer) put(b []byte) {
	w.line = b
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}

// Close flushes buffered output.
func (w *writer) Close() error {
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// ofJob returns a job as a record: completed, with its processors and requested time; wait is the time until its start
// in s, −1 if unknown. Properties without a field in the format (limits, deadlines, bandwidth) are lost.
func ofJob(j *order.Job, wait float64) Record {
	r := unknown()
	r[Number], r[Submit], r[waitTime], r[Run] = float64(j.ID), j.Submit, wait, j.Run
	r[allocated], r[Requested], r[RequestedTime] = float64(j.Procs), float64(j.Procs), j.Request
	if j.Memory > 0 {
		r[RequestedMemory] = j.Memory * 1000
	}
	r[status], r[User], r[Group], r[Executable] = 1, float64(j.User), float64(j.Group), float64(j.Executable)
	return r
}

// Save writes jobs to a file, gzip if its name ends in ".gz". If procs is not 0, MaxJobs, MaxNodes and MaxProcs
// replace the values of the header.
func Save(path string, h Header, jobs []order.Job, procs int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			err = fmt.Errorf("write trace %s: %w", path, regular.Reason(err))
		}
	}()
	var to io.Writer = f
	if strings.HasSuffix(path, ".gz") {
		z := gzip.NewWriter(f)
		defer func() {
			if e := z.Close(); err == nil {
				err = e
			}
		}()
		to = z
	}
	w := newWriter(to)
	if procs > 0 {
		n := strconv.Itoa(procs)
		h = slices.DeleteFunc(slices.Clone(h), func(c comment) bool {
			return c.Label == "MaxJobs" || c.Label == "MaxNodes" || c.Label == "MaxProcs"
		})
		h = append(h, comment{"MaxJobs", strconv.Itoa(len(jobs))}, comment{"MaxNodes", n}, comment{"MaxProcs", n})
	}
	w.Header(h)
	for i := range jobs {
		r := ofJob(&jobs[i], -1)
		w.Write(&r)
	}
	return w.Close()
}
