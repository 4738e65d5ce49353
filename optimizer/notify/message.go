package notify

import (
	"encoding/json"
	"strings"
	"time"

	"trainopt/sla"
)

// Event is the kind of a message.
type Event string

// The events of a run.
const (
	Planned Event = "plan"    // the first plan was made
	AtRisk  Event = "at-risk" // the projection may break a limit
	Missed  Event = "missed"  // a limit is broken
	Failed  Event = "failure" // the training failed; it may be restarted
	Ended   Event = "end"     // the run ended, in whatever way
)

// schema is the version of the JSON form of Message.
const schema = 1

// Message is one message about a run. Its JSON form is sent to webhooks and commands. Seconds and money are those of the
// run so far; nil means unknown.
type Message struct {
	Schema int       `json:"schema"`
	Event  Event     `json:"event"`
	At     time.Time `json:"at"`
	RunID  string    `json:"run_id"`
	Name   string    `json:"name"` // of the training
	State  string    `json:"state"`
	// Text is the message in one line, without the run and the link.
	Text string `json:"text"`
	// Limit is the limit that is at risk or missed; nil for other events.
	Limit   *sla.Verdict `json:"limit,omitempty"`
	Seconds *float64     `json:"seconds"`
	CostUSD *float64     `json:"cost_usd"`
	// Link is the page of the run, empty if the page is not served; Command shows the run in a terminal.
	Link    string `json:"link,omitempty"`
	Command string `json:"command"`
}

// title returns the message in one line with its run.
func (m *Message) title() string { return m.Name + " (" + m.RunID + "): " + m.Text }

// details returns where the run is shown.
func (m *Message) details() string {
	if m.Link != "" {
		return m.Link
	}
	return m.Command
}

// body returns the message in the form of a target.
func (m *Message) body(w way) ([]byte, error) {
	switch w {
	case bySlack:
		text := slackText.Replace(m.title())
		if m.Link != "" {
			text += "\n" + slackText.Replace(m.Link)
		} else {
			text += "\n`" + slackText.Replace(m.Command) + "`"
		}
		return json.Marshal(map[string]string{"text": text})
	case byMail:
		return []byte(strings.ReplaceAll(m.title()+"\n\n"+m.details()+"\n", "\n", "\r\n")), nil
	}
	return json.Marshal(m)
}

// slackText escapes the characters that Slack's mark-up reserves.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
