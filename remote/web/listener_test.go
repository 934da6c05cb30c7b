package web

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/tensor"
)

// patience bounds every wait of a test; none comes near it.
const patience = time.Minute

// submitted is a job of a listener that trains until it is stopped.
func submitted(t *testing.T, ctx context.Context, client *remote.Client) string {
	t.Helper()
	dir := t.TempDir()
	w, err := dataset.CreateShards(dir, "train", 1, recordio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		x, err := tensor.FromSlice([]float32{float32(i)})
		if err == nil {
			err = w.Write(dataset.AppendRecord(nil, x, x))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	m := layers.NewModel()
	batch := layers.Read(layers.Batch(layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(1)), layers.Field("y", layers.Dims(1))), 4))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(batch[0], 1), batch[1]), layers.Name("loss"))
	optimizer.SGD(0.001).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	id, err := client.Submit(ctx, &job.JobSpec{Program: encoded, Trainers: 2, Pservers: 1, Passes: 1 << 20, Fetch: []string{"loss"},
		Data: []*job.DataBinding{{Dataset: "train", Globs: []string{filepath.Join(dir, "train-*")}}}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A viewer's client of a real listener is all that the pages need: while a job runs, and when it has ended.
func TestPagesOfAListener(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	l, err := remote.Listen(ctx, remote.WithAuthority(authority))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	user, err := remote.Dial(ctx, l.Address(), remote.WithAuthority(authority))
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	own, err := authority.Issue(credential.Name{Kind: credential.User, User: "web", Access: credential.Viewer}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := remote.Attach(ctx, l.Address(), remote.WithCredentials(own))
	if err != nil {
		t.Fatal(err)
	}
	defer viewer.Close()
	id := submitted(t, ctx, user)
	s := newSite(t, Of(viewer), false)
	token := "Bearer " + s.tokens.Lend("me", credential.Viewer)
	a := s.get(t, "/api/stream?job="+id, token)
	now := page{}
	eventsOf(t, a.Body, func(_ int, changes page) bool {
		for key, value := range changes {
			now[key] = value
		}
		var h head
		var c curve
		var r roleRow
		unpack(t, now, "head", &h)
		unpack(t, now, "series/loss", &c)
		unpack(t, now, "role/trainer-1", &r)
		if h.State == "failed" {
			t.Fatalf("the job has failed: %s", h.Why)
		}
		return h.State != "running" || len(c.Step) < 2 || len(r.Shares) == 0 || now["role/pserver-0"] == nil || h.Steps == 0
	})
	for of, want := range map[string]string{"user": "sgd", "trainer": "send", "pserver-0": "sgd"} {
		a := s.get(t, "/api/jobs/"+id+"/program?form=text&of="+of, token)
		text, err := io.ReadAll(a.Body)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the program of %s: %d, %v, %.200s", of, a.StatusCode, err, text)
		}
	}
	if a := s.get(t, "/api/jobs/"+id+"/program", token); a.StatusCode != 200 || a.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("a picture: %d", a.StatusCode)
	}
	for _, of := range []string{"pserver-1", "pserver--1", "pserver-x", "other"} {
		if a := s.get(t, "/api/jobs/"+id+"/program?of="+of, token); a.StatusCode != 404 {
			t.Errorf("the program of %s: %d", of, a.StatusCode)
		}
	}
	if err := user.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	b, err := Report(ctx, Config{Source: Of(viewer)}, id)
	if err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(string(b), `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	p := page{}
	if err := json.Unmarshal([]byte(data), &p); err != nil {
		t.Fatal(err)
	}
	var h head
	var c curve
	unpack(t, p, "head", &h)
	unpack(t, p, "series/loss", &c)
	if h.State != "stopped" || len(c.Step) < 2 {
		t.Errorf("the report: %+v, %d points", h, len(c.Step))
	}
	if a := s.get(t, "/api/jobs/"+id+"/program", token); a.StatusCode != 404 {
		t.Errorf("the program of a job that has ended: %d", a.StatusCode)
	}
}
