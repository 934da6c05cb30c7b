package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/edl-go/edl/fault"
)

// When a stream sends.
const (
	manyRoles = 200              // of a job: its page is sent less often
	manyTime  = 4 * time.Second  // between two messages then
	aliveTime = 15 * time.Second // a stream that has nothing to tell says so
)

// answer writes a page as one JSON object.
func answer(w http.ResponseWriter, p page) {
	w.Header().Set("Content-Type", "application/json")
	b, err := json.Marshal(p)
	if err != nil {
		refuse(w, fault.Wrap(fault.Internal, "web", err))
		return
	}
	_, _ = w.Write(b)
}

// namespaceOf is the namespace that a request asks about; empty: all.
func namespaceOf(q *http.Request) string { return q.URL.Query().Get("namespace") }

// overview answers with the table of jobs.
func (s *Server) overview(w http.ResponseWriter, q *http.Request) {
	if err := s.hub.ask(q.Context()); err != nil {
		refuse(w, err)
		return
	}
	p := page{}
	s.overviewPage(p, seenBy(q.Context()), namespaceOf(q), time.Now())
	answer(w, p)
}

// job answers with the page of a job.
func (s *Server) job(w http.ResponseWriter, q *http.Request) {
	id := q.PathValue("job")
	if err := s.hub.want(q.Context(), id); err != nil {
		refuse(w, err)
		return
	}
	p := page{}
	s.overviewPage(p, seenBy(q.Context()), namespaceOf(q), time.Now())
	s.jobPage(p, id, time.Now())
	answer(w, p)
}

// stream sends the table of jobs, of one namespace if the query names one, and, if the query names one, the page of a job, and then what changes of them, until the caller goes or its token counts no
// more. Each event is an object of keys and values, with a number that rises by one.
func (s *Server) stream(w http.ResponseWriter, q *http.Request) {
	id := q.URL.Query().Get("job")
	err := s.hub.ask(q.Context())
	if err == nil && id != "" {
		err = s.hub.want(q.Context(), id)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	e, err := s.events(w, q)
	if err != nil {
		refuse(w, err)
		return
	}
	defer e.close()
	sent := page{}
	for {
		next := s.hub.next()
		p := page{}
		s.overviewPage(p, seenBy(q.Context()), namespaceOf(q), time.Now())
		if id != "" {
			s.jobPage(p, id, time.Now())
		}
		changes := changed(sent, p)
		if len(changes) > 0 {
			if e.send(changes) != nil {
				return
			}
		} else if e.alive() != nil {
			return
		}
		sent = p
		pause := time.Duration(0)
		if len(p) > manyRoles {
			pause = manyTime
		}
		if !e.wait(next, pause) {
			return
		}
	}
}

// changed is what of a page differs from the one that was sent. A key that is gone has the value null.
func changed(sent, now page) page {
	out := page{}
	for key, value := range now {
		if !bytes.Equal(sent[key], value) {
			out[key] = value
		}
	}
	for key := range sent {
		if _, there := now[key]; !there {
			out[key] = json.RawMessage("null")
		}
	}
	return out
}

// events is an open stream of server-sent events.
type events struct {
	server  *Server
	writer  http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	number  uint64
	last    time.Time
}

// events begins a stream. There is a bounded number of them.
func (s *Server) events(w http.ResponseWriter, q *http.Request) (*events, error) {
	select {
	case s.streams <- struct{}{}:
	default:
		return nil, fault.E(fault.Unavailable, fault.Got("one more stream"), fault.Wantf("at most %d", maxStreams))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	return &events{server: s, writer: w, control: http.NewResponseController(w), request: q}, nil
}

func (e *events) close() { <-e.server.streams }

// send sends a value as the next event.
func (e *events) send(value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	e.number++
	return e.write(fmt.Sprintf("id: %d\ndata: %s\n\n", e.number, b))
}

// alive says that there is nothing to tell, from time to time.
func (e *events) alive() error {
	if time.Since(e.last) < aliveTime {
		return nil
	}
	return e.write(": nothing new\n\n")
}

func (e *events) write(text string) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTime))
	e.last = time.Now()
	if _, err := e.writer.Write([]byte(text)); err != nil {
		return err
	}
	return e.control.Flush()
}

// wait waits for a change, and at least for a pause. It reports whether the stream goes on: its caller is there, and its token counts.
func (e *events) wait(change <-chan struct{}, pause time.Duration) bool {
	least := time.NewTimer(pause)
	defer least.Stop()
	select {
	case <-change:
	case <-e.request.Context().Done():
		return false
	}
	select {
	case <-least.C:
	case <-e.request.Context().Done():
		return false
	}
	_, err := e.server.caller(e.request)
	return err == nil
}
