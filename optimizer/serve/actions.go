package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
)

// loginPage accepts the token in the address, as the command prints it, and otherwise asks for it.
func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("token")
	if token == "" {
		writePage(w, http.StatusOK, "login", s.shell(r, "Log in", "/login", nil))
		return
	}
	s.enter(w, r, token)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if !s.guard.sameOrigin(r) {
		s.refuse(w, r, http.StatusForbidden, "the request comes from another site")
		return
	}
	s.enter(w, r, r.PostFormValue("token"))
}

func (s *Server) enter(w http.ResponseWriter, r *http.Request, token string) {
	if !same(strings.TrimSpace(token), s.guard.token) {
		s.refuse(w, r, http.StatusForbidden, "wrong token; it is in the file "+TokenFile+" of the state directory")
		return
	}
	s.guard.admit(w)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.guard.dismiss(w)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// requestValues returns the fields of a request, of a form or a JSON object.
func requestValues(r *http.Request) (url.Values, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" {
		err := r.ParseForm()
		return r.PostForm, err
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	out := url.Values{}
	for name, v := range fields {
		switch v := v.(type) {
		case string:
			out.Set(name, v)
		case []any:
			for _, x := range v {
				text, ok := x.(string)
				if !ok {
					return nil, fmt.Errorf("%s: want texts", name)
				}
				out.Add(name, text)
			}
		default:
			return nil, fmt.Errorf("%s: want a text", name)
		}
	}
	return out, nil
}

// outcome answers a change: JSON for programs, otherwise the page of the run with the text.
func (s *Server) outcome(w http.ResponseWriter, r *http.Request, code int, fields map[string]any) {
	if wantsJSON(r) {
		fields["schema"] = 1
		answerJSON(w, code, fields)
		return
	}
	s.done.Store(r.PathValue("id"), fields["text"])
	http.Redirect(w, r, "/runs/"+url.PathEscape(r.PathValue("id")), http.StatusSeeOther)
}

// changes wraps the handlers of requests that change a run.
func (s *Server) changes(possible bool, what string, next func(http.ResponseWriter, *http.Request, *runSummary)) http.HandlerFunc {
	return s.guard.changes(s.ofRun(func(w http.ResponseWriter, r *http.Request, run *runSummary) {
		if !possible {
			s.refuse(w, r, http.StatusNotImplemented, "this page cannot "+what+" runs")
			return
		}
		next(w, r, run)
	}))
}

// failed answers a change that was not made.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, http.StatusConflict, err.Error())
}

// answerWithin is the time after which a change that still continues is answered.
const answerWithin = 10 * time.Second

// stop asks the agent to save and stop, or stops the job itself if its agent is dead. It answers before the end of a
// stop that takes long; if that fails, the next page of the run says why.
func (s *Server) stop(w http.ResponseWriter, r *http.Request, run *runSummary) {
	type ended struct {
		text string
		err  error
	}
	done := make(chan ended, 1)
	if _, busy := s.stops.LoadOrStore(run.ID, true); busy {
		s.outcome(w, r, http.StatusAccepted, map[string]any{"text": run.ID + " is being stopped"})
		return
	}
	go func() {
		defer s.stops.Delete(run.ID)
		text, err := s.options.Control.Stop(context.WithoutCancel(r.Context()), run.dir)
		done <- ended{text, err}
	}()
	select {
	case e := <-done:
		if e.err != nil {
			s.failed(w, r, e.err)
			return
		}
		s.index.run(run.ID)
		s.outcome(w, r, http.StatusOK, map[string]any{"text": e.text})
	case <-time.After(answerWithin):
		s.outcome(w, r, http.StatusAccepted, map[string]any{"text": run.ID + " is being stopped; it saves its work first"})
		go func() {
			if e := <-done; e.err != nil {
				s.done.Store(run.ID, e.err.Error())
			}
		}()
	}
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request, run *runSummary) {
	text, err := s.options.Control.Resume(r.Context(), run.dir)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.index.run(run.ID)
	s.outcome(w, r, http.StatusOK, map[string]any{"text": text})
}

// prefer asks the agent for another preference. It answers before the agent if that is busy.
func (s *Server) prefer(w http.ResponseWriter, r *http.Request, run *runSummary) {
	fields, err := requestValues(r)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	text := fields.Get("prefer")
	if text == "" && fields.Has("time") {
		text = fmt.Sprintf("time=%s,cost=%s,resource=%s", fields.Get("time"), fields.Get("cost"), fields.Get("resource"))
	}
	preference, err := plan.ParsePreference(text)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	answer, err := s.options.Control.Prefer(ctx, run.dir, preference)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.outcome(w, r, http.StatusAccepted, map[string]any{"text": "the agent has the request and has not answered yet: it is busy with another change", "preference": preference.String()})
	case err != nil:
		s.failed(w, r, err)
	default:
		s.outcome(w, r, http.StatusOK, map[string]any{"text": answer.Text, "changed": answer.Changed, "preference": preference.String()})
	}
}

// note replaces the tags and the text of a run.
func (s *Server) note(w http.ResponseWriter, r *http.Request, run *runSummary) {
	fields, err := requestValues(r)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	note := journal.Note{Text: fields.Get("text")}
	for _, t := range fields["tags"] {
		note.Tags = append(note.Tags, strings.Split(t, ",")...)
	}
	if err := note.Write(run.dir); err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	now, _ := s.index.run(run.ID)
	s.outcome(w, r, http.StatusOK, map[string]any{"text": "note saved", "tags": now.Tags, "note": now.Note})
}
