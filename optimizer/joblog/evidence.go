package joblog

import "fmt"

// Evidence ranks what is known of the writer of a log, weakest first. The zero value is no evidence.
type Evidence int

const (
	// NoEvidence: nothing was seen. Such a file is not used.
	NoEvidence Evidence = iota
	// Output is the job's own standard output or standard error.
	Output
	// SoleWriter: the file is the only one whose every growth fell into a moment in which the job wrote, and no other
	// process has it open.
	SoleWriter
	// OnCommandLine is SoleWriter for a file that is named in the job's arguments, with fewer observations.
	OnCommandLine
	// Wrote: the kernel reported that a process of the job closed the file after writing.
	Wrote
	// OpenForWriting: a process of the job has, or had, the file open for writing.
	OpenForWriting
	// Observed: the observer inside the training reports its progress.
	Observed
	// OwnLog is the file of $OPTIMIZER_LOG.
	OwnLog
	// Named is the log that the user named.
	Named
)

var evidenceWords = [...]string{
	NoEvidence: "writer unknown", Output: "output of the job", SoleWriter: "the only file that grows when the job writes",
	OnCommandLine: "named in the job's arguments", Wrote: "written by the job", OpenForWriting: "opened for writing by the job",
	Observed: "observer", OwnLog: "$OPTIMIZER_LOG", Named: "named by the user",
}

// String is a short reason, such as "opened for writing by the job".
func (e Evidence) String() string {
	if e < 0 || int(e) >= len(evidenceWords) {
		return fmt.Sprintf("evidence(%d)", int(e))
	}
	return evidenceWords[e]
}

// Discovered reports whether the log was found rather than agreed upon: no job may be stopped on what it says.
func (e Evidence) Discovered() bool { return e < Observed }

// Source is where progress is read.
type Source struct {
	Path     string // empty before any progress
	Format   string // a name of monitor.Formats; empty until recognised
	Evidence Evidence
	// Others are further files that the job writes and that might be its log, at most 3.
	Others []string
}

// String is "log: PATH (format, why)", with the other candidates.
func (s Source) String() string {
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
