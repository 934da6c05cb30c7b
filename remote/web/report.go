package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"regexp"
	"time"

	"github.com/edl-go/edl/fault"
)

// report answers with the report of a job.
func (s *Server) report(w http.ResponseWriter, q *http.Request) {
	b, err := s.reportOf(q.Context(), q.PathValue("job"))
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="report.html"`)
	_, _ = w.Write(b)
}

// Report returns what the page of a job shows now as one HTML file, which loads nothing from elsewhere. The job may have ended.
func Report(ctx context.Context, cfg Config, id string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := New(cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.hub.run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	return s.reportOf(ctx, id)
}

// importLine is a line that a module begins with: in a report all modules are one script.
var importLine = regexp.MustCompile(`(?m)^import .*\n`)

// reportOf writes a report: the page with its style, its modules and the data inside.
func (s *Server) reportOf(ctx context.Context, id string) ([]byte, error) {
	if err := s.hub.want(ctx, id); err != nil {
		return nil, err
	}
	now := time.Now()
	p := page{}
	p.put("listener", about{Address: s.cfg.Address, Version: s.cfg.Version})
	p.put("report", map[string]any{"job": id, "made": now.UnixMilli()})
	if !s.jobPage(p, id, now) {
		return nil, fault.E(fault.NotFound, fault.Got("job "+fault.Quote(id)))
	}
	if lines, err := lastLines(ctx, s.cfg.Source, id); err == nil {
		p.put("lines", lines)
	}
	data, err := json.Marshal(p) // no "<" is in it: encoding/json escapes it
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "report", err)
	}
	html, err := fs.ReadFile(pages, "page/index.html")
	if err != nil {
		return nil, fault.File(fault.Internal, "index.html", err)
	}
	style, err := fs.ReadFile(pages, "page/style.css")
	if err != nil {
		return nil, fault.File(fault.Internal, "style.css", err)
	}
	var script bytes.Buffer
	for _, name := range scripts {
		b, err := fs.ReadFile(pages, "page/"+name)
		if err != nil {
			return nil, fault.File(fault.Internal, name, err)
		}
		script.Write(bytes.ReplaceAll(importLine.ReplaceAll(b, nil), []byte("export "), nil))
	}
	html = bytes.Replace(html, []byte(`<link rel="stylesheet" href="style.css">`), join("<style>\n", style, "</style>"), 1)
	return bytes.Replace(html, []byte(`<script type="module" src="app.js"></script>`),
		append(join(`<script type="application/json" id="data">`, data, "</script>\n"), join("<script type=\"module\">\n", script.Bytes(), "</script>")...), 1), nil
}

func join(before string, b []byte, after string) []byte {
	return append(append([]byte(before), b...), after...)
}

// lastLines returns the last lines that the roles of a job wrote.
func lastLines(ctx context.Context, source Source, id string) (some lines, err error) {
	ctx, cancel := awaited(ctx)
	defer cancel()
	err = source.Logs(ctx, id, "", false, func(role, text string) error {
		some.add(role, text)
		return nil
	})
	return some, err
}
