package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/program/draw"
	"github.com/edl-go/edl/proto/rpc"
)

// program answers with a picture of a program of a job that runs: the user's ("of" is user, the default), that of its trainers (trainer), or that of a pserver
// (pserver-N). With "form=text" it is the program as text.
func (s *Server) program(w http.ResponseWriter, q *http.Request) {
	ctx, cancel := awaited(q.Context())
	defer cancel()
	all, err := s.cfg.Source.Programs(ctx, q.PathValue("job"))
	if errors.Is(err, fault.NotFound) {
		err = unknownJob(q.PathValue("job")) // the listener names those that there are, also to who may not see them
	}
	if err != nil {
		refuse(w, err)
		return
	}
	of := q.URL.Query().Get("of")
	encoded, err := pick(all, of)
	var p *program.Program
	if err == nil {
		p, err = program.Decode(encoded, program.DefaultLimits())
	}
	if err != nil {
		refuse(w, err)
		return
	}
	if q.URL.Query().Get("form") == "text" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = p.Text(w, program.TextOptions{})
		return
	}
	picture, err := draw.SVG(ctx, p)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(picture)
}

func pick(all *rpc.Programs, of string) ([]byte, error) {
	unknown := fault.E(fault.NotFound, fault.Got("program "+fault.Quote(of)), fault.Want("user, trainer or pserver-N of a job that runs: a listener forgets programs when their jobs end"))
	switch {
	case all == nil:
		return nil, unknown
	case of == "" || of == "user":
		return all.User, nil
	case of == "trainer":
		return all.Trainer, nil
	}
	number, ok := strings.CutPrefix(of, "pserver-")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= len(all.Pservers) {
		return nil, unknown
	}
	return all.Pservers[i], nil
}
