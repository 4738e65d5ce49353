package observe

import "fmt"

// evidenceLine ranks the evidence for the writer of a log, weakest first. The zero value is no evidence.
type evidenceLine int

const (
	// noEvidence is the absence of evidence. Such a file is not used.
	noEvidence evidenceLine = iota
	// Output is the job's own standard output or standard error.
	Output
	// soleWriter means that the file is the only one that grew exclusively in intervals in which the job wrote, and
	// no other process has it open.
	soleWriter
	// onCommandLine is soleWriter for a file named in the job's arguments; it requires fewer observations.
	onCommandLine
	// wrote means that the kernel reported a process of the job closing the file after writing.
	wrote
	// openForWriting means that a process of the job has, or had, the file open for writing.
	openForWriting
	// Observed means that the observer inside the training reports the progress.
	Observed
	// ownLog marks the file of $OPTIMIZER_LOG.
	ownLog
	// named marks the log that the user named.
	named
)

var evidenceWords = [...]string{
	noEvidence: "writer unknown", Output: "output of the job", soleWriter: "the only file that grows when the job writes",
	onCommandLine: "named in the job's arguments", wrote: "written by the job", openForWriting: "opened for writing by the job",
	Observed: "observer", ownLog: "$OPTIMIZER_LOG", named: "named by the user",
}

// String returns a short reason, such as "opened for writing by the job".
func (e evidenceLine) String() string {
	if e < 0 || int(e) >= len(evidenceWords) {
		return fmt.Sprintf("evidence(%d)", int(e))
	}
	return evidenceWords[e]
}

// Discovered reports whether the log was discovered rather than given in advance: its content must not cause a job to
// be stopped.
func (e evidenceLine) Discovered() bool { return e < Observed }

// logSource is a source of progress.
type logSource struct {
	Path     string // empty before any progress
	Format   string // a name of trainlog.Formats; empty until recognised
	Evidence evidenceLine
	// Others are at most 3 other files that the job writes and that might be its log.
	Others []string
}

// String returns "log: PATH (format, evidence)", with the other candidates.
func (s logSource) String() string {
	format := s.Format
	if format == "" {
		format = "format not known yet"
	}
	text := fmt.Sprintf("log: %s (%s, %s)", s.Path, format, s.Evidence)
	if len(s.Others) > 0 {
		text += fmt.Sprintf("; not read: %q", s.Others)
	}
	return text
}
