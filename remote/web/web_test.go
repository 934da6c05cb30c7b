package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
)

// eventsOf reads a stream: each event with its number.
func eventsOf(t *testing.T, body io.Reader, each func(number int, p page) (more bool)) {
	t.Helper()
	in := bufio.NewReader(body)
	number := 0
	for {
		text, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		text = strings.TrimSuffix(text, "\n")
		if id, ok := strings.CutPrefix(text, "id: "); ok {
			if _, err := fmt.Sscan(id, &number); err != nil {
				t.Fatal(err)
			}
		}
		if data, ok := strings.CutPrefix(text, "data: "); ok {
			p := page{}
			if err := json.Unmarshal([]byte(data), &p); err != nil {
				t.Fatal(err)
			}
			if !each(number, p) {
				return
			}
		}
	}
}

// A stream sends everything first and then what changes, in order, and nothing else. A job that is held up is called stalled, with the name of who holds it up.
func TestStream(t *testing.T) {
	f := newFake(t)
	s := newSite(t, f, false)
	a := s.get(t, "/api/stream?job=digits", "Bearer "+s.tokens.Lend("me", credential.Viewer))
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", a.StatusCode, a.Header)
	}
	now, last := page{}, 0
	phase := "begin"
	eventsOf(t, a.Body, func(number int, changes page) bool {
		if number != last+1 {
			t.Fatalf("event %d after %d", number, last)
		}
		last = number
		for key, value := range changes {
			if string(now[key]) == string(value) {
				t.Errorf("event %d tells %s again", number, key)
			}
			if string(value) == "null" {
				delete(now, key)
			} else {
				now[key] = value
			}
		}
		var h head
		var r roleRow
		unpack(t, now, "head", &h)
		unpack(t, now, "role/trainer-1", &r)
		switch phase {
		case "begin":
			for _, key := range []string{"listener", "row/digits", "row/over", "row/" + hostileName, "role/coordinator", "queues", "discards", "tables", "servers", "checkpoints", "ledger", "settings"} {
				if now[key] == nil {
					t.Errorf("the first event has no %s", key)
				}
			}
			if h.Stalled || r.Held != "" || len(r.Shares) != 6 {
				t.Errorf("at first: %+v, %+v", h, r)
			}
			phase = "stalled"
			f.stall(time.Now().Add(-time.Hour))
			s.hub.change(func() { s.hub.jobs["digits"].progressed = time.Now().Add(-time.Hour) })
		case "stalled":
			if h.Stalled {
				if !strings.Contains(h.Why, "trainer 1") || r.Held != "pserver 0 waits for it" {
					t.Errorf("stalled: %q, %+v", h.Why, r)
				}
				phase = "gone"
				f.change(func() {
					status := f.jobs[2].Status
					status.Steps++
					status.Roles = status.Roles[:3]
					f.jobs[2].Waits = nil
				})
			}
		case "gone":
			if now["role/trainer-1"] != nil || h.Stalled {
				return true
			}
			phase = "dry"
			f.change(func() { f.jobs[2].Status.Waiting = "new files" })
		case "dry":
			if h.Why == "waits for new files" { // known before its trainers wait: status and waits come by two calls
				phase = "waits"
				f.stall(time.Now().Add(-time.Hour)) // but for what no role can give them
				s.hub.change(func() { s.hub.jobs["digits"].progressed = time.Now().Add(-time.Hour) })
			}
		case "waits":
			if h.Stalled || h.Why != "waits for new files" {
				t.Errorf("a job that waits for new files is stalled: %q", h.Why)
			}
			return len(h.Waits) == 0
		}
		return true
	})
}

func unpack(t *testing.T, p page, key string, into any) {
	t.Helper()
	if p[key] == nil {
		return
	}
	if err := json.Unmarshal(p[key], into); err != nil {
		t.Fatal(key, err)
	}
}

// A stream ends when its token is revoked.
func TestStreamOfARevokedToken(t *testing.T) {
	s := newSite(t, newFake(t), false)
	secret, err := s.tokens.Create(credential.Name{User: "short", Access: credential.Viewer}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a := s.get(t, "/api/stream", "Bearer "+secret)
	eventsOf(t, a.Body, func(int, page) bool { return false })
	if err := s.tokens.Revoke("short"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, a.Body); err != nil {
		t.Error(err)
	}
}

// There is a bounded number of streams.
func TestStreamsAreBounded(t *testing.T) {
	s := newSite(t, newFake(t), false)
	token := "Bearer " + s.tokens.Lend("me", credential.Viewer)
	for range maxStreams {
		a := s.get(t, "/api/stream", token)
		eventsOf(t, a.Body, func(int, page) bool { return false })
	}
	if a := s.get(t, "/api/stream", token); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", a.StatusCode)
	}
}

// The page of a job that has ended has what was known last, with all of its steps.
func TestJobThatHasEnded(t *testing.T) {
	s := newSite(t, newFake(t), false)
	a := s.get(t, "/api/jobs/over", "Bearer "+s.tokens.Lend("me", credential.Viewer))
	p := page{}
	if err := json.NewDecoder(a.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	var h head
	var c curve
	unpack(t, p, "head", &h)
	unpack(t, p, "series/loss", &c)
	if h.State != "succeeded" || !h.Ended || h.Rate != 80 || len(c.Step) != 10 || *c.Mean[9] != 0.5 {
		t.Errorf("%+v\n%+v", h, c)
	}
	if a := s.get(t, "/api/jobs/none", "Bearer "+s.tokens.Lend("me", credential.Viewer)); a.StatusCode != http.StatusNotFound {
		t.Errorf("a job that there is not: %d", a.StatusCode)
	}
}

// A job that starts, ends, takes the name of another one, or is forgotten, is known as such after a look or some.
func TestJobsComeAndGo(t *testing.T) {
	f := newFake(t)
	s := newSite(t, f, false)
	token := s.tokens.Lend("me", credential.Viewer)
	rows := func() (all []string) {
		t.Helper()
		p := page{}
		if err := json.Unmarshal(recorded(s.Server, "/api/jobs", token).Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		for key := range p {
			var r row
			unpack(t, p, key, &r)
			if id, ok := strings.CutPrefix(key, "row/"); ok && id != hostileName {
				all = append(all, fmt.Sprintf("%d %s %s", r.Order, id, r.State))
			}
		}
		slices.Sort(all)
		return all
	}
	check := func(want ...string) {
		t.Helper()
		if got := rows(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check("0 digits running", "2 over succeeded")
	f.change(func() {
		d := proto.CloneOf(f.jobs[2])
		d.Status.Job, d.Status.State, d.Status.Waiting = "next", job.State_WAITING, "cores"
		f.jobs = append(f.jobs, d)
	})
	s.lookAgain(t)
	check("0 digits running", "1 next waiting", "3 over succeeded")
	f.change(func() { f.jobs[2].Status.State, f.jobs[2].Status.Seconds = job.State_STOPPED, 61 })
	s.lookAgain(t)
	check("0 next waiting", "1 digits stopped", "3 over succeeded")
	f.change(func() { f.jobs = f.jobs[3:] })
	s.hub.change(func() { s.hub.whole = time.Time{} })
	s.lookAgain(t)
	check("0 next waiting")
}

// Nobody asks the listener while nobody looks.
func TestNobodyLooks(t *testing.T) {
	f := newFake(t)
	s := New(Config{Source: f, Tokens: credential.OpenTokens("")})
	for _, r := range s.routes() {
		if r.needs == everybody {
			recorded(s, strings.TrimSuffix(strings.TrimPrefix(r.pattern, "GET "), "{$}"), "")
		}
	}
	if f.asked != 0 || s.hub.isAsked() {
		t.Errorf("the listener was asked %d times", f.asked)
	}
}

// A report loads nothing, and what comes from a job is data in it.
func TestReport(t *testing.T) {
	f := newFake(t)
	for _, id := range []string{"digits", "over", hostileName} {
		b, err := Report(t.Context(), Config{Source: f, Address: "127.0.0.1:7164", Version: "v1"}, id)
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		text := string(b)
		if strings.Contains(text, "<img") || strings.Count(text, "<script") != 2 || strings.Count(text, "</script>") != 2 || regexp.MustCompile(`(src|href)="[^#"]`).MatchString(text) ||
			strings.Contains(text, "\nimport ") || strings.Contains(text, "export ") {
			t.Errorf("the report of %q is more than one file, or a name got into it", id)
		}
		_, data, _ := strings.Cut(text, `<script type="application/json" id="data">`)
		data, _, _ = strings.Cut(data, "</script>")
		p := page{}
		if err := json.Unmarshal([]byte(data), &p); err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		var h head
		var l lines
		unpack(t, p, "head", &h)
		unpack(t, p, "lines", &l)
		if h.Job != id || len(l.Lines) != 2 || l.Lines[1].Text != hostileName {
			t.Errorf("%q: %+v, %+v", id, h, l)
		}
	}
	if _, err := Report(t.Context(), Config{Source: f}, "none"); err == nil {
		t.Error("the report of a job that there is not")
	}
}

// A series has a bounded number of points, which stand for the steps that they have, also when a job goes back and where a value is no number.
func TestSeries(t *testing.T) {
	s := &series{}
	for step := range uint64(100_000) {
		s.add(step, float64(step))
	}
	c := s.curve()
	if n := len(c.Step); n > maxPoints || n < maxPoints/2-1 || c.Step[0] != 0 || *c.Min[0] != 0 || *c.Max[n-1] != 99_999 || *c.Mean[0] != float64(c.Every-1)/2 {
		t.Errorf("%d points, each of %d steps: %v", n, c.Every, c.Step)
	}
	s.add(50_000, 7)
	c = s.curve()
	if n := len(c.Step); c.Step[n-1] != 50_000/c.Every*c.Every || s.last != 7 {
		t.Errorf("after going back the last point is of step %d", c.Step[n-1])
	}
	odd := &series{}
	for step, v := range []float64{1, math.NaN(), math.Inf(1), 2} {
		odd.add(uint64(step), v)
	}
	c = odd.curve()
	if c.Odd != 2 || c.Mean[1] != nil || c.Mean[2] != nil || *c.Mean[3] != 2 {
		t.Errorf("%+v", c)
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
	var all steps
	all.take(0, []*job.Event{stepOf(t, 0, 1), {What: &job.Event_Status{Status: &job.JobStatus{}}}, stepOf(t, 1, 2)})
	all.take(1, []*job.Event{{}, stepOf(t, 1, 5)}) // told again
	if name, main := all.main(); name != "loss" || main.last != 2 || all.next != 3 {
		t.Errorf("%s %+v, next %d", name, main, all.next)
	}
}

// Over TLS the server shows a certificate of the listener's authority, and nothing is told in clear text.
func TestPagesOverTLS(t *testing.T) {
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := Secret(authority)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tokens := credential.OpenTokens("")
	token := tokens.Lend("me", credential.Viewer)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(Config{Source: newFake(t), Tokens: tokens}).Serve(ctx, l, secret) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	own, err := authority.Issue(credential.Name{Kind: credential.User, User: "me", Access: credential.Viewer}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, _, root := own.Parts()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(root)
	get := func(scheme string, config *tls.Config) (int, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+l.Addr().String()+"/api/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		a, err := client.Do(q)
		if err != nil {
			return 0, err
		}
		a.Body.Close()
		return a.StatusCode, nil
	}
	if code, err := get("https", &tls.Config{RootCAs: roots, ServerName: credential.Host}); code != 200 {
		t.Errorf("with the authority: %d, %v", code, err)
	}
	if code, err := get("https", nil); err == nil {
		t.Errorf("without the authority: %d", code)
	}
	if code, err := get("http", nil); code == 200 {
		t.Errorf("in clear text: %d, %v", code, err)
	}
}
