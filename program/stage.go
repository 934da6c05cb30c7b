package program

// A Stage says what a program is for. Package ops holds the table of what is legal in each.
type Stage int

// Stages of a program.
const (
	StageLocal          Stage = iota // trains or evaluates in one process
	StageStartup                     // initializes the persistable variables of a local program
	StageInference                   // computes targets from feeds
	StageTrainer                     // one trainer's part of distributed training
	StageTrainerStartup              // initializes a trainer
	StagePServer                     // one parameter server's part
	StagePServerStartup              // initializes a parameter server
	StageSave                        // run by a trainer: collects the model from the servers and saves it
)

// String names the stage as messages do, such as "pserver startup".
func (s Stage) String() string {
	names := [...]string{"local", "startup", "inference", "trainer", "trainer startup", "pserver", "pserver startup", "save"}
	if s < 0 || int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}
