package generation_test

import (
	"fmt"
	"strings"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

func (s *teller) step(e generation.Event) string {
	out := s.machine.Step(s.now, e)
	var words []string
	say := func(ok bool, format string, args ...any) {
		if ok {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	next := func(what string, n *generation.Next) {
		if n != nil {
			s.change = n.Change
			say(true, "%s %s", what, show(n.Generation))
		}
	}
	say(out.Refuse != nil, "refused: %v", out.Refuse)
	say(out.Superseded, "superseded")
	if say(out.Freeze > 0, "freeze generation %d", s.machine.Generation().Number); out.Freeze > 0 {
		s.change = out.Freeze
	}
	next("persist", out.Persist)
	next("resume", out.Resume)
	next("settle", out.Settle)
	say(out.Begun, "begun")
	say(out.End, "end")
	say(out.Fail != nil, "fail: %v", out.Fail)
	return strings.Join(words, "; ")
}

func show(g generation.Generation) string {
	text := fmt.Sprintf("generation %d of", g.Number)
	for _, m := range g.Members {
		text += fmt.Sprintf(" %d", m.Rank)
	}
	text += fmt.Sprintf(" from round %d", g.Round)
	if len(g.Commit) > 0 {
		text += ", commit of"
	}
	for _, d := range g.Commit {
		text += fmt.Sprintf(" %d", d.Rank)
	}
	return text
}

func (s *teller) wait() string {
	w, ok := s.machine.Wait()
	if !ok {
		return "nothing"
	}
	text := fmt.Sprintf("%s by %s since %d until %d", w.What, strings.Join(w.By, ", "), w.Since.Unix(), w.Until.Unix())
	if w.LastError != "" {
		text += ": " + w.LastError
	}
	if s.machine.Paused() {
		text += "; paused"
	}
	return text
}
