package web

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Bounds of what a stream of lines sends at a time.
const (
	maxLines  = 500
	maxLine   = 2000 // bytes
	linesTime = 500 * time.Millisecond
)

// A line is what a role wrote.
type line struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// lines are some lines that follow each other.
type lines struct {
	Skipped int    `json:"skipped"` // before them
	Lines   []line `json:"lines"`
}

// add adds a line, and skips the first where there are too many.
func (l *lines) add(role, text string) {
	l.Lines = append(l.Lines, line{role, text[:min(len(text), maxLine)]})
	if extra := len(l.Lines) - maxLines; extra > 0 {
		l.Skipped, l.Lines = l.Skipped+extra, l.Lines[extra:]
	}
}

// logs sends the last lines that the roles of a job wrote, or one of them, and then those that follow, until the job has ended.
func (s *Server) logs(w http.ResponseWriter, q *http.Request) {
	id := q.PathValue("job")
	if err := s.hub.want(q.Context(), id); err != nil {
		refuse(w, err)
		return
	}
	e, err := s.events(w, q)
	if err != nil {
		refuse(w, err)
		return
	}
	defer e.close()
	var mu sync.Mutex
	var next lines
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(q.Context())
	defer func() {
		cancel()
		<-done
	}()
	go func() {
		defer close(done)
		_ = s.cfg.Source.Logs(ctx, id, q.URL.Query().Get("role"), true, func(role, text string) error {
			mu.Lock()
			defer mu.Unlock()
			next.add(role, text)
			return nil
		})
	}()
	take := func() lines {
		mu.Lock()
		defer mu.Unlock()
		some := next
		next = lines{}
		return some
	}
	every := time.NewTicker(linesTime)
	defer every.Stop()
	for over := false; !over; {
		select {
		case <-every.C:
		case <-done:
			over = true
		case <-ctx.Done():
			over = true
		}
		if some := take(); len(some.Lines) > 0 {
			err = e.send(some)
		} else {
			err = e.alive()
		}
		if _, unknown := s.caller(q); err != nil || unknown != nil {
			return
		}
	}
}
