package web

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/view"
)

// maxMeasured is how many jobs have metrics of their own: those that run first, then those that were started last.
const maxMeasured = 50

// A metric is a name that Prometheus reads, with its labels.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Metrics of a listener, and of each job. Labels are a job, and words of which there are few.
var (
	listenerUp = gauge("edl_listener_up", "1 if the listener answers the server of its metrics, 0 if it does not.")
	buildInfo  = gauge("edl_build_info", "1, with the version of edl.", "version")
	jobs       = gauge("edl_jobs", "Jobs that the listener remembers, by state.", "state")
	etcdUp     = gauge("edl_etcd_reachable", "0 if a job that runs has no answer of etcd, else 1.")

	jobStalled      = gauge("edl_job_stalled", "1 if a job that should run does not go on, else 0.", "job")
	jobSeconds      = gauge("edl_job_age_seconds", "How long a job has been there, or was there until its end.", "job")
	jobSteps        = counter("edl_steps_total", "Steps that a job has trained. It falls when the job goes back to a checkpoint.", "job")
	jobRecords      = counter("edl_records_total", "Records that a job has trained, as its steps tell. It falls when the job goes back to a checkpoint.", "job")
	jobRate         = gauge("edl_records_per_second", "Records that a job trains in a second, over the last 10 seconds.", "job")
	jobLoss         = gauge("edl_loss", "The first value that the steps of a job fetch, of the last step.", "job")
	jobAttempts     = counter("edl_job_attempts_total", "How often a job has begun again at a checkpoint or its beginning: parameters were lost, or an async job got another number of pservers.", "job")
	jobGeneration   = gauge("edl_member_epoch", "Number of the generation of trainers.", "job")
	members         = gauge("edl_members", "Roles of a job, by role and state.", "job", "role", "state")
	restarts        = counter("edl_role_restarts_total", "How often roles of a job were started again.", "job", "role")
	roundSeconds    = gauge("edl_round_duration_seconds", "How long one of the last 100 rounds took: the median over rounds, the greatest of all roles of the kind.", "job", "role")
	phaseRatio      = gauge("edl_round_phase_ratio", "The part of a phase in the time of the last 100 rounds, over all roles of the kind.", "job", "role", "phase")
	rejected        = counter("edl_gradients_rejected_total", "Messages that pservers have refused: doubled, stale and foreign ones.", "job")
	tasks           = gauge("edl_tasks", "Tasks of the present pass, by state.", "job", "state")
	retried         = counter("edl_records_retried_total", "Records that were handed out again.", "job")
	discarded       = counter("edl_records_discarded_total", "Records of tasks that were discarded.", "job")
	committed       = counter("edl_records_committed_total", "Records in the ledger, in all passes, each pass counted.", "job")
	tableBytes      = gauge("edl_table_bytes", "Bytes of tables that only pservers have.", "job")
	serverBytes     = gauge("edl_pserver_placed_bytes", "Bytes that the transpiler has placed on pservers.", "job")
	checkpointTime  = gauge("edl_checkpoint_last_success_timestamp_seconds", "When the last checkpoint of a job was made.", "job")
	checkpointBytes = gauge("edl_checkpoint_size_bytes", "Size of the last checkpoint of a job.", "job")
	checkpointFails = gauge("edl_checkpoint_failing", "1 if the last attempt to make a checkpoint has failed, else 0.", "job")
)

// described are the metrics in the order of their declaration, for Describe.
var described []metric

func gauge(name, help string, labels ...string) metric {
	return describe(prometheus.GaugeValue, name, help, labels)
}

func counter(name, help string, labels ...string) metric {
	return describe(prometheus.CounterValue, name, help, labels)
}

func describe(kind prometheus.ValueType, name, help string, labels []string) metric {
	m := metric{prometheus.NewDesc(name, help, labels, nil), kind}
	described = append(described, m)
	return m
}

// metrics answers Prometheus, from a registry of its own: nothing of a library gets in.
func (s *Server) metrics() http.HandlerFunc {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s, func(string) bool { return true }}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(s.cfg.Metrics...)
	options := promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: writeTime, EnableOpenMetrics: true}
	handler := promhttp.HandlerFor(registry, options)
	return func(w http.ResponseWriter, q *http.Request) {
		_ = s.hub.ask(q.Context())                                                                               // an error is the metric listenerUp
		if name, _ := q.Context().Value(callerKey{}).(credential.Name); !name.Access.Covers(credential.Viewer) { // of some jobs only, and not of the process
			some := prometheus.NewRegistry()
			some.MustRegister(collector{s, seenBy(q.Context())})
			promhttp.HandlerFor(some, options).ServeHTTP(w, q)
			return
		}
		handler.ServeHTTP(w, q)
	}
}

// A collector tells what the hub knows of the jobs that are seen.
type collector struct {
	server *Server
	seen   func(id string) bool
}

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range described {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	tell := func(m metric, v float64, labels ...string) {
		for i, l := range labels {
			labels[i] = strings.ToValidUTF8(l, "\ufffd")
		}
		if told, err := prometheus.NewConstMetric(m.desc, m.kind, v, labels...); err == nil {
			to <- told
		}
	}
	h := c.server.hub
	h.mu.Lock()
	up := h.err == nil && time.Since(h.looked) < awakeTime
	h.mu.Unlock()
	tell(listenerUp, truth(up))
	tell(buildInfo, 1, c.server.cfg.Version)
	states := map[string]float64{"paused": 0}
	for _, name := range job.State_name {
		states[strings.ToLower(name)] = 0
	}
	reachable, measured, now := true, 0, time.Now()
	h.known(c.seen, func(t *tracked) {
		states[view.State(t.status)]++
		reachable = reachable && !slices.ContainsFunc(t.details.GetWaits(), func(w *job.Wait) bool { return slices.Contains(w.By, "etcd") })
		if measured++; measured <= maxMeasured {
			tellJob(tell, t, now)
		}
	})
	for state, n := range states {
		tell(jobs, n, state)
	}
	tell(etcdUp, truth(reachable))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// tellJob tells the metrics of one job.
func tellJob(tell func(m metric, v float64, labels ...string), t *tracked, now time.Time) {
	s, d := t.status, t.details
	id := s.Job
	tell(jobStalled, truth(t.held(now).stalled), id)
	tell(jobSeconds, s.Seconds, id)
	tell(jobSteps, float64(view.Steps(s)), id)
	tell(jobRecords, float64(view.Records(s)), id)
	tell(jobAttempts, float64(s.Attempt), id)
	tell(rejected, float64(s.Refused), id)
	if !view.Ended(s) {
		tell(jobRate, t.rate(), id)
	}
	if _, main := t.steps.main(); main != nil {
		tell(jobLoss, main.last, id)
	}
	type kind struct{ role, state string }
	count, again := map[kind]float64{}, map[string]float64{}
	for _, r := range s.Roles {
		role := strings.ToLower(r.Role.String())
		count[kind{role, strings.ToLower(r.State.String())}]++
		again[role] += float64(max(0, r.Starts-1))
	}
	for k, n := range count {
		tell(members, n, id, k.role, k.state)
	}
	for role, n := range again {
		tell(restarts, n, id, role)
	}
	var placed int64
	for _, l := range s.Placement {
		placed += l.Bytes
	}
	tell(serverBytes, float64(placed), id)
	if d != nil {
		tellDetails(tell, d, id)
	}
}

// tellDetails tells what the roles of a job have reported.
func tellDetails(tell func(m metric, v float64, labels ...string), d *rpc.JobDetails, id string) {
	tell(jobGeneration, float64(d.Queues.GetGeneration()), id)
	for _, role := range []job.Role{job.Role_TRAINER, job.Role_PSERVER} {
		tellRounds(tell, d, role, id)
	}
	if queues := d.Queues.GetQueues(); len(queues) > 0 {
		var todo, pending, done, left, back, out int64
		for _, q := range queues {
			todo, pending, done, left = todo+q.Todo, pending+q.Pending, done+q.Done, left+q.Discarded
			back, out = back+q.Retried, out+q.DiscardedRecords
		}
		for state, n := range map[string]int64{"todo": todo, "pending": pending, "done": done, "discarded": left} {
			tell(tasks, float64(n), id, state)
		}
		tell(retried, float64(back), id)
		tell(discarded, float64(out), id)
	}
	if d.Ledger != nil {
		var records int64
		for _, p := range d.Ledger.Passes {
			records += p.Records
		}
		tell(committed, float64(records), id)
	}
	if len(d.Tables) > 0 {
		var bytes int64
		for _, u := range d.Tables {
			bytes += u.Values + u.Slots + u.Structure
		}
		tell(tableBytes, float64(bytes), id)
	}
	if k := d.Queues.GetCheckpoint(); k != nil {
		tell(checkpointFails, truth(k.FailingSinceMs > 0), id)
		if k.Name != "" {
			tell(checkpointTime, float64(k.CreatedMs)/1000, id)
			tell(checkpointBytes, float64(k.Bytes), id)
		}
	}
}

// tellRounds tells where the time of the last rounds of all trainers, or of all pservers, went.
func tellRounds(tell func(m metric, v float64, labels ...string), d *rpc.JobDetails, of job.Role, id string) {
	var slowest, all int64
	parts := map[string]int64{}
	for _, t := range d.Times {
		if t.Role != of || t.Rounds.GetRounds() == 0 {
			continue
		}
		slowest = max(slowest, t.Rounds.Median)
		for _, p := range t.Rounds.Phases {
			parts[p.Name] += p.Total
			all += p.Total
		}
	}
	if all == 0 {
		return
	}
	role := strings.ToLower(of.String())
	tell(roundSeconds, time.Duration(slowest).Seconds(), id, role)
	for name, total := range parts {
		tell(phaseRatio, float64(total)/float64(all), id, role, name)
	}
}
