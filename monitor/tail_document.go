package monitor

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// docMark is the size and modification time of a JSON document when it was last read.
type docMark struct {
	size int64
	time time.Time
}

// errEnough ends the reading of a document for the current Poll.
var errEnough = errors.New("enough rows")

// maxDocument is the size of the largest JSON document that is read, in bytes.
const maxDocument = 256 << 20

// readDocument reads the whole document if it has changed. With salvage it reads the complete entries of an
// incomplete document. Entries returned before are skipped.
func (t *Tail) readDocument(salvage bool) error {
	fi, err := t.follow.file.Stat()
	if err != nil {
		return err
	}
	mark := docMark{size: fi.Size(), time: fi.ModTime()}
	if t.stats.Behind = 0; mark == t.docAt && !salvage {
		return nil
	}
	if mark.size > maxDocument {
		return fmt.Errorf("JSON document of %d bytes: more than %d", mark.size, int64(maxDocument))
	}
	if t.seen.count > 0 || t.docAt != (docMark{}) {
		t.beginReplay()
	}
	err = t.doc.read(io.NewSectionReader(t.follow.file, 0, mark.size), t, salvage)
	t.stats.Bytes += mark.size
	switch {
	case errors.Is(err, errEnough):
		t.stats.Behind = mark.size
		return nil
	case errors.Is(err, errNotDocument):
		return err
	}
	// Any other error means a half-written document, which is read again when it changes.
	t.docAt, t.docErr = mark, err
	return nil
}

// finishDocument returns the complete entries of a document that will not be completed.
func (t *Tail) finishDocument() error {
	if t.follow.file == nil || t.docErr == nil {
		return nil
	}
	t.bad(0, "JSON is not complete: "+t.docErr.Error())
	err := t.readDocument(true)
	t.docErr = nil
	return err
}
