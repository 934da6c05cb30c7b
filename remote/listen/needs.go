package listen

import (
	"slices"

	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// needs is what the roles of a job take.
type needs struct {
	trainer schedule.Resources
	least   int64                // bytes that follow from the program for a trainer, whatever the spec says
	servers []schedule.Resources // the coordinator, the pservers, and their standbys
}

// processBytes is what a role takes before it has any variable: its code, its buffers, its goroutines.
const processBytes = 64 << 20

// needsOf is what a spec says that roles take. Where it does not say, a trainer takes as many cores as it has workers, and other roles none: they work while trainers
// wait for them. Their memory follows from the program then, as the least that it can be:
//
//	trainer   its variables twice, for values and gradients, and the temporaries of the op where these are most; of an evaluation, too
//	pserver   its slices with their accumulators twice, for values and contributions; so does its standby
func needsOf(spec *job.JobSpec, p *plan) needs {
	trainer := schedule.Resources{Cores: 1000 * int64(max(1, spec.Workers)), Memory: add(processBytes, trainerBytes(p, int(spec.Trainers)))}
	n := needs{trainer: said(spec.TrainerNeeds, trainer), least: trainer.Memory, servers: []schedule.Resources{said(spec.PserverNeeds, schedule.Resources{Memory: processBytes})}}
	n.servers[0].Cores = 0 // the coordinator computes nothing
	for i := range p.loads {
		pserver := said(spec.PserverNeeds, schedule.Resources{Memory: serverBytes(p, i)})
		n.servers = append(n.servers, slices.Repeat([]schedule.Resources{pserver}, 1+int(spec.Standby))...)
	}
	n.servers[0].Memory = processBytes
	return n
}

// serverBytes is the least memory that a pserver of a plan can take.
func serverBytes(p *plan, index int) int64 { return processBytes + 2*p.loads[index].Bytes }

// planned is the least memory that a role can take in bytes, as it follows from the program, whatever the spec says. p is the plan that it belongs to.
func (n needs) planned(m cluster.Member, p *plan) int64 {
	switch {
	case m.Role == job.Role_TRAINER:
		return n.least
	case m.Role == job.Role_COORDINATOR || m.Index >= len(p.loads):
		return processBytes
	}
	return serverBytes(p, m.Index)
}

// of is what a role takes. It is false for a server that the plan did not have.
func (n needs) of(m cluster.Member, standbys int32) (schedule.Resources, bool) {
	if m.Role == job.Role_TRAINER {
		return n.trainer, true
	}
	at := serverPlace(m, standbys)
	if at >= len(n.servers) {
		return schedule.Resources{}, false
	}
	return n.servers[at], true
}

// serverPlace is the place of a coordinator, pserver or standby among the servers of needs, where each pserver has so many standbys.
func serverPlace(m cluster.Member, standbys int32) int {
	switch each := 1 + int(standbys); m.Role {
	case job.Role_COORDINATOR:
		return 0
	case job.Role_STANDBY:
		return 2 + m.Index*each
	default:
		return 1 + m.Index*each
	}
}

// needsMessage is what a role is told of what it takes.
func needsMessage(r schedule.Resources, known bool) *job.Needs {
	if !known {
		return nil
	}
	return &job.Needs{Millicores: &r.Cores, Memory: r.Memory}
}

// said is what a spec says of a role, and otherwise where it does not.
func said(m *job.Needs, otherwise schedule.Resources) schedule.Resources {
	if m != nil && m.Millicores != nil {
		otherwise.Cores = *m.Millicores
	}
	if m.GetMemory() > 0 {
		otherwise.Memory = m.GetMemory()
	}
	otherwise.Memory = min(otherwise.Memory, schedule.MaxMemory)
	return otherwise
}

// trainerBytes is the least memory that the variables of a job take in one of so many trainers, which divide a batch. Held-back data is divided by batches, so a trainer evaluates whole ones, and
// between evaluations it keeps the memory of their temporaries.
func trainerBytes(p *plan, trainers int) int64 {
	lasting, most := variableBytes(p.user, trainers)
	if p.judges != nil {
		_, evaluates := variableBytes(p.judges, 1)
		most = add(most, evaluates)
	}
	return add(add(lasting, lasting), most)
}

// variableBytes is what the persistable variables of a program take, and its temporaries where they are most, in one of so many processes that divide a batch.
func variableBytes(p *program.Program, processes int) (lasting, most int64) {
	rows := int64(1)
	if read, err := reader.ReadOp(p.Global()); err == nil && read != nil {
		if pipeline, err := reader.PipelineOf(p.Global(), read); err == nil {
			rows = max(1, int64(pipeline.Batch/max(1, processes)))
		}
	}
	bytes := map[string]int64{}
	for _, v := range p.Global().Vars() {
		if v.Kind != program.LoDTensor {
			continue
		}
		n := bytesOf(v, rows)
		if v.Persistable {
			lasting = add(lasting, n)
			continue
		}
		bytes[v.Name] = n
	}
	for _, op := range p.Global().Ops {
		var here int64
		names := slices.Concat(op.InputNames(), op.OutputNames())
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			here = add(here, bytes[name])
		}
		most = max(most, here)
	}
	return lasting, most
}

// bytesOf is how large a variable is whose open extents are rows.
func bytesOf(v *program.Var, rows int64) int64 {
	n := int64(v.DType.Size())
	for _, d := range v.Dims {
		if d < 0 {
			d = rows
		}
		if d > 0 && n > schedule.MaxMemory/d {
			return schedule.MaxMemory
		}
		n *= d
	}
	return n
}

// add adds sizes, and stops at the largest that counts.
func add(a, b int64) int64 { return min(a+b, schedule.MaxMemory) }
