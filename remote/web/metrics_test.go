package web

import (
	"bufio"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
)

// sampleLine is a metric in Prometheus' text format.
var sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$`)

// scraped is what /metrics answers: values by name and labels.
func scraped(t *testing.T, s *site) map[string]string {
	t.Helper()
	a := s.get(t, "/metrics", "Bearer "+s.tokens.Lend("prometheus", credential.Viewer))
	if a.StatusCode != 200 {
		b, _ := io.ReadAll(a.Body)
		t.Fatalf("%d: %s", a.StatusCode, b)
	}
	all := map[string]string{}
	in := bufio.NewScanner(a.Body)
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		m := sampleLine.FindStringSubmatch(in.Text())
		if m == nil {
			t.Fatalf("no metric: %q", in.Text())
		}
		all[m[1]+m[2]] = m[3]
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMetrics(t *testing.T) {
	f := newFake(t)
	s := newSite(t, f, false)
	got := scraped(t, s)
	for name, want := range map[string]string{
		"edl_listener_up": "1", `edl_build_info{version="v1"}`: "1", `edl_jobs{state="running"}`: "1", `edl_jobs{state="succeeded"}`: "1", `edl_jobs{state="paused"}`: "0", "edl_etcd_reachable": "1",
		`edl_job_stalled{job="digits"}`: "0", `edl_steps_total{job="digits"}`: "300", `edl_records_total{job="digits"}`: "4800",
		`edl_member_epoch{job="digits"}`: "3", `edl_members{job="digits",role="trainer",state="running"}`: "2", `edl_role_restarts_total{job="digits",role="trainer"}`: "0",
		`edl_round_duration_seconds{job="digits",role="trainer"}`: "0.002", `edl_tasks{job="digits",state="todo"}`: "5", `edl_records_retried_total{job="digits"}`: "16",
		`edl_records_committed_total{job="digits"}`: "1600", `edl_table_bytes{job="digits"}`: "704", `edl_pserver_placed_bytes{job="digits"}`: "4096",
		`edl_checkpoint_last_success_timestamp_seconds{job="digits"}`: "1.7e+09", `edl_checkpoint_size_bytes{job="digits"}`: "4096", `edl_checkpoint_failing{job="digits"}`: "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if got["process_open_fds"] == "" || got[`edl_records_per_second{job="digits"}`] == "" || got["go_goroutines"] == "" {
		t.Error("no metrics of the process")
	}
	f.stall(time.Now().Add(-time.Hour))
	f.change(func() {
		f.jobs[2].Status.Paused = "pserver 0 has lost its lease"
		f.jobs[2].Waits = append(f.jobs[2].Waits, &job.Wait{Who: "listener", What: "an answer of etcd", By: []string{"etcd"}})
	})
	s.lookAgain(t)
	got = scraped(t, s)
	if got[`edl_job_stalled{job="digits"}`] != "1" || got[`edl_jobs{state="paused"}`] != "1" || got["edl_etcd_reachable"] != "0" || got[`edl_loss{job="digits"}`] == "" {
		t.Errorf("a job that does not go on: %v", got)
	}
	f.change(func() { f.broken = errors.New("gone") })
	s.lookAgain(t)
	if got = scraped(t, s); got["edl_listener_up"] != "0" {
		t.Errorf("a listener that does not answer: %q", got["edl_listener_up"])
	}
}

// However many jobs and roles there are, the number of metrics is bounded.
func TestMetricsAreBounded(t *testing.T) {
	f := newFake(t)
	for range 300 {
		d := proto.CloneOf(f.jobs[2])
		d.Status.Job = "job-" + string(rune('a'+len(f.jobs)%26)) + strings.Repeat("x", len(f.jobs))
		for i := range uint32(50) {
			d.Status.Roles = append(d.Status.Roles, &job.RoleStatus{Role: job.Role_TRAINER, Index: 2 + i, State: job.State_RUNNING})
		}
		f.jobs = append(f.jobs, d)
	}
	s := newSite(t, f, false)
	count := 0
	for name := range scraped(t, s) {
		if strings.HasPrefix(name, "edl_") {
			count++
		}
	}
	if count > 50*50 {
		t.Errorf("%d metrics", count)
	}
}

// The dashboard for Grafana and the alert rules use no metric that there is not, and the page of the docs names all.
func TestObservabilityFilesUseKnownMetrics(t *testing.T) {
	var known []string
	for _, m := range described {
		known = append(known, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(m.desc.String())[1])
	}
	docs := filepath.Join("..", "..", "docs")
	used := regexp.MustCompile(`\bedl_[a-z_]+`)
	for _, file := range []string{"observability/grafana.json", "observability/alerts.yaml", "dashboard.md"} {
		b, err := os.ReadFile(filepath.Join(docs, file))
		if err != nil {
			t.Fatal(err)
		}
		names := used.FindAllString(string(b), -1)
		if len(names) < 5 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		for _, name := range known {
			if file == "dashboard.md" && !slices.Contains(names, name) {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}

// A job of a thousand roles: the page has them all, and what changes is sent less often and is small.
func TestThousandRoles(t *testing.T) {
	f := newFake(t)
	d := f.jobs[2]
	for i := uint32(2); i < 1000; i++ {
		d.Status.Roles = append(d.Status.Roles, &job.RoleStatus{Role: job.Role_TRAINER, Index: i, State: job.State_RUNNING, Starts: 1})
		d.Times = append(d.Times, &rpc.RoleTimes{Role: job.Role_TRAINER, Index: i, Rounds: proto.CloneOf(d.Times[1].Rounds)})
	}
	s := New(Config{Source: f, Tokens: credential.OpenTokens("")})
	now := time.Now()
	s.hub.enter([]*job.JobStatus{d.Status}, true, now)
	s.hub.enterDetails("digits", d)
	before, after := page{}, page{}
	s.jobPage(before, "digits", now)
	size := 0
	for key, value := range before {
		size += len(key) + len(value)
	}
	if len(before) < 1000 || size > 300<<10 {
		t.Errorf("%d keys of %d bytes", len(before), size)
	}
	d.Times[500].Rounds.Median++
	d.Times[500].Rounds.Last = 7
	s.jobPage(after, "digits", now)
	if got := changed(before, after); len(got) != 1 || got["role/trainer-499"] == nil {
		t.Errorf("one role has changed: %d keys", len(got))
	}
	if math.IsNaN(rounded(math.NaN())) || rounded(123456) != 123500 || rounded(0.000123456) != 0.0001235 {
		t.Errorf("%v %v", rounded(123456), rounded(0.000123456))
	}
}
