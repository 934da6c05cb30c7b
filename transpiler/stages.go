package transpiler

import (
	"time"

	"github.com/edl-go/edl/program"
)

// A Stage is what one pass left behind.
type Stage struct {
	Pass     string
	Duration time.Duration  // of the pass, without verification
	Programs []NamedProgram // the user's program as "input", and copies of the role programs that exist; nil unless Config.Dump is set
}

// A watch measures one pass.
type watch struct {
	state *state
	pass  string
	start time.Time
}

func (s *state) begin(pass string) watch { return watch{s, pass, time.Now()} }

// end records the pass.
func (w watch) end() {
	stage := Stage{Pass: w.pass, Duration: time.Since(w.start)}
	if w.state.cfg.Dump {
		stage.Programs = append(stage.Programs, NamedProgram{"input", program.StageLocal, w.state.inputCopy()})
		for _, r := range w.state.result.Programs() {
			r.Program = r.Program.Clone()
			stage.Programs = append(stage.Programs, r)
		}
	}
	w.state.result.Stages = append(w.state.result.Stages, stage)
}

// inputCopy returns one copy of the user's program for all stages.
func (s *state) inputCopy() *program.Program {
	if stages := s.result.Stages; len(stages) > 0 {
		return stages[0].Programs[0].Program
	}
	return s.source.Clone()
}
