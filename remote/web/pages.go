package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/view"
)

// A page is what a page shows: values by key.
//
//	listener       version and address of the listener, and how many jobs it has
//	row/JOB        a line of the table of jobs: a row
//	head           of the job of the page: a row with more, a head
//	role/NAME      a roleRow, of each role
//	series/NAME    a curve, of each value that steps fetch; names is their order
//	ledger         records of the last passes
//	queues, discards, tables, servers, checkpoints, settings
type page map[string]json.RawMessage

// put enters a value. All values that pages have can be encoded.
func (p page) put(key string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		b = []byte("null")
	}
	p[key] = b
}

// about is what is said of the listener.
type about struct {
	Address string `json:"address"`
	Version string `json:"version"`
	Jobs    int    `json:"jobs"`
	// Namespaces are those of all jobs that are seen, at most maxNamespaces, in order.
	Namespaces []string `json:"namespaces"`
	Error      string   `json:"error,omitempty"` // why what is shown is old
}

// A row is one job in the table of jobs.
type row struct {
	Job      string     `json:"job"`
	Order    int        `json:"order"` // among all jobs
	Owner    string     `json:"owner,omitempty"`
	State    string     `json:"state"`
	Ended    bool       `json:"ended"`
	Mode     string     `json:"mode"`
	Pass     int32      `json:"pass"` // how many are trained whole
	Passes   int32      `json:"passes"`
	Steps    uint64     `json:"steps"`
	Records  int64      `json:"records"`
	Seconds  int64      `json:"seconds"`
	Rate     float64    `json:"rate"`           // records a second
	Left     *float64   `json:"left,omitempty"` // seconds until the end, about; absent: not known
	Trainers int        `json:"trainers"`       // that run
	Wanted   int32      `json:"wanted"`
	Value    string     `json:"value,omitempty"` // of the last step
	Name     string     `json:"name,omitempty"`  // of value
	Spark    []*float64 `json:"spark,omitempty"` // how value has changed
	Stalled  bool       `json:"stalled"`
	Since    int64      `json:"since,omitempty"` // when the cause began, in milliseconds since 1970
	Why      string     `json:"why"`             // one sentence
}

// maxSpark is how many points of a series stand in a row.
const maxSpark = 60

// maxNamespaces is how many namespaces a page offers.
const maxNamespaces = 200

// maxRows is how many jobs are listed: those that run, then those that were started last.
const maxRows = 200

// overviewPage is the table of the jobs that are seen: of those in one namespace, or of all if it is empty.
func (s *Server) overviewPage(p page, seen func(id string) bool, namespace string, now time.Time) {
	n, namespaces := 0, map[string]bool{}
	s.hub.known(seen, func(t *tracked) {
		within := jobspec.NamespaceOf(t.status.Job)
		if len(namespaces) < maxNamespaces {
			namespaces[within] = true
		}
		if namespace != "" && namespace != within {
			return
		}
		if n < maxRows {
			p.put("row/"+t.status.Job, t.row(n, now))
		}
		n++
	})
	a := about{Address: s.cfg.Address, Version: s.cfg.Version, Jobs: n, Namespaces: slices.AppendSeq([]string{}, maps.Keys(namespaces))}
	slices.Sort(a.Namespaces)
	s.hub.mu.Lock()
	if s.hub.err != nil {
		a.Error = s.hub.err.Error()
	}
	s.hub.mu.Unlock()
	p.put("listener", a)
}

func (t *tracked) row(order int, now time.Time) row {
	s := t.status
	r := row{Job: s.Job, Order: order, Owner: s.Owner, State: view.State(s), Ended: view.Ended(s), Mode: strings.ToLower(s.Mode.String()), Pass: s.CompletePasses, Passes: s.Passes,
		Steps: view.Steps(s), Records: view.Records(s), Seconds: int64(s.Seconds), Rate: rounded(t.rate()), Trainers: view.Running(s), Wanted: s.Trainers}
	if left, ok := t.left(); ok {
		r.Left = &left
	}
	if name, main := t.steps.main(); main != nil {
		r.Name, r.Value = name, strconv.FormatFloat(main.last, 'g', 5, 64)
		c := main.curve()
		every := (len(c.Mean) + maxSpark - 1) / maxSpark
		for i := 0; i < len(c.Mean); i += max(1, every) {
			r.Spark = append(r.Spark, c.Mean[i])
		}
	}
	h := t.held(now)
	r.Stalled, r.Why = h.stalled, h.text
	if !h.since.IsZero() {
		r.Since = h.since.UnixMilli()
	}
	return r
}

// rounded keeps four digits, so that noise alone is no change.
func rounded(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// left is how many seconds a job still needs at its present rate, if its data tells how many records there are.
func (t *tracked) left() (seconds float64, ok bool) {
	rate, s := t.rate(), t.status
	var records int64
	for _, q := range t.details.GetQueues().GetQueues() {
		if q.Following {
			return 0, false
		}
		records += q.Records
	}
	all := records * int64(s.Passes-s.FirstPass)
	if view.Ended(s) || rate <= 0 || all <= 0 || t.details.GetSpec().GetFed() {
		return 0, false
	}
	return math.Round(float64(max(0, all-s.Records)) / rate), true
}

// A head is what stands above a page of a job.
type head struct {
	row
	Waits      []string `json:"waits"` // sentences, the cause first
	Attempt    int32    `json:"attempt"`
	Generation uint64   `json:"generation,omitempty"`
	Phase      string   `json:"phase,omitempty"`
	Reading    string   `json:"reading,omitempty"` // what the times of rounds say
	Refused    uint64   `json:"refused"`
	Names      []string `json:"names"`  // of series
	Phases     phases   `json:"phases"` // their names
	Hash       string   `json:"hash"`   // of the program
	Programs   bool     `json:"programs"`
}

// jobPage is what is known of a job. It reports whether there is such a job.
func (s *Server) jobPage(p page, id string, now time.Time) bool {
	return s.hub.of(id, func(t *tracked) {
		d := t.details
		if d == nil {
			d = &rpc.JobDetails{Status: t.status}
		}
		held := t.held(now)
		h := head{row: t.row(0, now), Waits: held.waits, Attempt: t.status.Attempt, Generation: d.Queues.GetGeneration(), Phase: d.Queues.GetPhase(),
			Reading: reading(d), Refused: t.status.Refused, Names: t.steps.names, Phases: phasesOf(d), Hash: t.status.ProgramHash, Programs: !view.Ended(t.status)}
		p.put("head", h)
		for _, r := range t.roles(held, h.Phases) {
			p.put("role/"+r.Name, r)
		}
		for name, s := range t.steps.series {
			p.put("series/"+name, s.curve())
		}
		p.put("queues", queues(d))
		p.put("discards", discards(d))
		p.put("tables", tables(d))
		p.put("servers", servers(d))
		p.put("checkpoints", t.checkpoints())
		p.put("ledger", ledger(d))
		p.put("settings", settings(d.Spec))
	})
}

// A queueRow is the tasks of one dataset.
type queueRow struct {
	Dataset   string `json:"dataset"`
	Pass      int32  `json:"pass"`
	Passes    int32  `json:"passes"`
	Todo      int64  `json:"todo"`
	Pending   int64  `json:"pending"`
	Done      int64  `json:"done"`
	Discarded int64  `json:"discarded"`
	Records   int64  `json:"records"`
	Retried   int64  `json:"retried"`
	Following bool   `json:"following"`
}

func queues(d *rpc.JobDetails) []queueRow {
	all := []queueRow{}
	for _, q := range d.Queues.GetQueues() {
		all = append(all, queueRow{q.Dataset, view.CompletePasses(q), q.Passes, q.Todo, q.Pending, q.Done, q.Discarded, q.Records, q.Retried, q.Following})
	}
	return all
}

// A discardRow is a task that was discarded.
type discardRow struct {
	Dataset  string `json:"dataset"`
	Task     int64  `json:"task"`
	Pass     int32  `json:"pass"`
	Records  int64  `json:"records"`
	Failures uint32 `json:"failures"`
	Reason   string `json:"reason"`
}

// maxDiscards is how many discarded tasks a page lists.
const maxDiscards = 50

func discards(d *rpc.JobDetails) []discardRow {
	all := []discardRow{}
	for _, q := range d.Queues.GetQueues() {
		for _, task := range q.DiscardedTasks {
			if len(all) == maxDiscards {
				return all
			}
			row := discardRow{Dataset: q.Dataset, Task: task.Id, Pass: task.Pass, Failures: task.Failures, Reason: task.Reason}
			for _, r := range task.Records {
				row.Records += r.To - r.From
			}
			all = append(all, row)
		}
	}
	return all
}

// maxPasses is of how many passes a page shows the records.
const maxPasses = 20

// ledger adds up the records of the last passes, the last one first.
func ledger(d *rpc.JobDetails) []view.PassSum {
	all := view.AddUp(d)
	all = all[max(0, len(all)-maxPasses):]
	slices.Reverse(all)
	return all
}

// A tableRow is what one pserver has of a table.
type tableRow struct {
	Table     string `json:"table"`
	Server    uint32 `json:"server"`
	Rows      int64  `json:"rows"`
	Room      int64  `json:"room"`
	Values    int64  `json:"values"` // bytes
	Slots     int64  `json:"slots"`
	Structure int64  `json:"structure"`
}

func tables(d *rpc.JobDetails) []tableRow {
	all := []tableRow{}
	for _, u := range d.Tables {
		all = append(all, tableRow{u.Name, u.Server, u.Rows, u.Room, u.Values, u.Slots, u.Structure})
	}
	return all
}

// A serverRow is what was placed on one pserver.
type serverRow struct {
	Server uint32 `json:"server"`
	Bytes  int64  `json:"bytes"`
	Slices int32  `json:"slices"`
}

func servers(d *rpc.JobDetails) []serverRow {
	all := []serverRow{}
	for _, l := range d.Status.GetPlacement() {
		all = append(all, serverRow{l.Server, l.Bytes, l.Slices})
	}
	return all
}

// A checkpointRow is a checkpoint that was the last one at some time. The job removes older ones.
type checkpointRow struct {
	Name    string `json:"name"`
	Store   string `json:"store"`
	Steps   uint64 `json:"steps"`
	Bytes   int64  `json:"bytes"`
	Created int64  `json:"created"`           // milliseconds since 1970
	Failing int64  `json:"failing,omitempty"` // since when later ones fail, likewise
	Error   string `json:"error,omitempty"`
}

// checkpoints lists those that were seen, the last one first.
func (t *tracked) checkpoints() []checkpointRow {
	all := []checkpointRow{}
	last := t.details.GetQueues().GetCheckpoint()
	for i := len(t.seen) - 1; i >= 0; i-- {
		k := t.seen[i]
		all = append(all, checkpointRow{Name: k.Name, Store: k.Store, Steps: k.Steps, Bytes: k.Bytes, Created: k.CreatedMs})
	}
	if last != nil && (len(all) == 0 || last.FailingSinceMs > 0) {
		if len(all) == 0 {
			all = append(all, checkpointRow{Store: last.Store})
		}
		all[0].Failing, all[0].Error = last.FailingSinceMs, failure(last.Failure)
	}
	return all
}

// A setting is what the job was started with.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func settings(spec *job.JobSpec) []setting {
	all := []setting{}
	if spec == nil {
		return all
	}
	add := func(name, value string) {
		if value != "" {
			all = append(all, setting{name, value})
		}
	}
	trainers := fmt.Sprint(spec.Trainers)
	if spec.TrainersMax > spec.Trainers {
		trainers = fmt.Sprintf("%d to %d", spec.Trainers, spec.TrainersMax)
	}
	add("mode", strings.ToLower(spec.Mode.String()))
	add("trainers", trainers)
	add("pservers", fmt.Sprint(spec.Pservers))
	add("transport", strings.ToLower(spec.Transport.String()))
	add("gradients", spec.CompressGradients)
	add("parameters", spec.CompressParameters)
	add("checkpoints", spec.Checkpoints.GetStore())
	if spec.Fed {
		add("data", "fed by its client")
	}
	return all
}
