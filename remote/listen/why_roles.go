package listen

import (
	"io"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/role"
)

// logOf is where a role writes. What a trainer tells there of its waits is taken out of it: that comes also while the coordinator and etcd are gone,
// and stays known while the trainer hangs.
func (j *Job) logOf(m cluster.Member, spec *job.RoleSpec) io.Writer {
	return lineWriter{log: j.logs, role: role.Name(spec), waits: func(waits []*job.Wait) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.known.waits[m] = waits
	}}
}

// trainersWait returns what trainers that run have told, but of waits of which somebody who serves them, and answers, has told more. j.mu is held.
func (j *Job) trainersWait(told []*job.Wait) (waits []*job.Wait) {
	servers := map[string]bool{} // that have told of a trainer
	for _, w := range told {
		servers[w.Who] = true
	}
	for _, r := range j.crew.machine.Roles() {
		if r.State != supervise.Running || servers[r.Member.String()] {
			continue
		}
		for _, w := range j.known.waits[r.Member] {
			w = proto.Clone(w).(*job.Wait)
			w.Who = r.Member.String()
			waits = append(waits, w)
		}
	}
	return waits
}

// silences returns which servers do not answer. j.mu is held.
func (j *Job) silences() (waits []*job.Wait) {
	for _, r := range j.crew.machine.Roles() {
		if s, ok := j.known.silent[r.Member]; ok && r.State == supervise.Running && !r.Lost {
			waits = append(waits, &job.Wait{Who: supervisor, What: "an answer of " + r.Member.String(), By: []string{r.Member.String()},
				Since: timestamppb.New(s.since), LastError: s.err.Error()})
		}
	}
	return waits
}
