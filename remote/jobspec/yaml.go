package jobspec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"gopkg.in/yaml.v3"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/plainyaml"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/proto/job"
)

// maxFile bounds a job file.
const maxFile = 1 << 20

// file is job.yaml: those fields of JobSpec that a person sets, under their names, with the program as a path. The tags say what Fields tells of them: doc is for people,
// and one lists the words that a text may be.
type file struct {
	Name               string            `yaml:"name" doc:"of the job; a TrainingJob has the name of its resource"`
	Namespace          string            `yaml:"namespace" doc:"of a listener, that the job belongs to; empty: default. A TrainingJob has that of its resource"`
	Program            string            `yaml:"program" doc:"file of the program, or folder of a saved model"`
	Data               map[string]source `yaml:"data" doc:"files of each dataset: a glob, a list of globs, or {files, follow}"`
	Trainers           bounds            `yaml:"trainers" doc:"N, or N:MAX for an elastic job"`
	TrainersMax        int32             `yaml:"trainers_max" doc:"most trainers of an elastic job, in place of N:MAX"`
	PServers           bounds            `yaml:"pservers" doc:"N, or N:MAX, within which the job can be scaled"`
	Mode               mode              `yaml:"mode" one:"sync async" doc:"when pservers apply gradients"`
	Passes             int32             `yaml:"passes" doc:"how often the data is read; 0: as the program says"`
	Save               string            `yaml:"save" doc:"folder for the model; empty: none"`
	Overwrite          bool              `yaml:"overwrite" doc:"save may replace another model"`
	Params             string            `yaml:"params" doc:"folder, file or URL of parameters to start from"`
	Fetch              []string          `yaml:"fetch" doc:"variables that are reported with each step; none: the loss"`
	MinBlockSize       int64             `yaml:"min_block_size" doc:"elements of the smallest slice of a parameter; 0: 8192"`
	NoSlice            bool              `yaml:"no_slice" doc:"keep every parameter whole on one pserver"`
	SplitMethod        string            `yaml:"split_method" one:"round_robin hash_name" doc:"how slices are dealt to pservers"`
	Transport          transport         `yaml:"transport" one:"auto grpc tcp unix shm" doc:"how gradients and parameters travel"`
	CompressGradients  string            `yaml:"compress_gradients" doc:"none, bf16, fp16 or topk:FRACTION"`
	CompressParameters string            `yaml:"compress_parameters" one:"none bf16 fp16" doc:"how float32 parameters travel to trainers"`
	MergeHosts         bool              `yaml:"merge_hosts" doc:"trainers of one host merge before they send"`
	Devices            int32             `yaml:"devices" doc:"of each trainer, which share its rows of a batch; 0: 1"`
	PushEvery          int32             `yaml:"push_every" doc:"async: steps whose gradients are added up before they are sent; 0: 1"`
	PullEvery          int32             `yaml:"pull_every" doc:"async: steps after which parameters are received; 0: 1"`
	Staleness          *int32            `yaml:"staleness" doc:"async: a trainer waits that is more pushes ahead of another one; absent: none waits"`
	DayRounds          int64             `yaml:"day_rounds" doc:"rounds that a day takes, for tables that evict by days; 0: clocks say the day"`
	Standby            int32             `yaml:"standby" doc:"standbys of each pserver: 0 or 1"`
	BackupTrainers     int32             `yaml:"backup_trainers" doc:"sync: a round counts without so many trainers that are late"`
	NoFiniteCheck      bool              `yaml:"no_finite_check" doc:"go on when the loss is NaN or infinite"`
	StartDeadline      time.Duration     `yaml:"start_deadline" doc:"for all roles to be there; default 2m"`
	RoundDeadline      time.Duration     `yaml:"round_deadline" doc:"of a round; default 1m"`
	Lease              time.Duration     `yaml:"lease" doc:"a role that is silent for longer is lost; default 5s"`
	RecordsPerTask     int64             `yaml:"records_per_task" doc:"0: chosen from the dataset"`
	Workers            int32             `yaml:"workers" doc:"goroutines of each trainer; 0: 1"`
	MaxRestarts        int32             `yaml:"max_restarts" doc:"of each role; 0: 10, -1: none"`
	MaxTaskFailures    int32             `yaml:"max_task_failures" doc:"a task that fails more often is discarded; 0: 3"`
	MinTaskTimeout     time.Duration     `yaml:"min_task_timeout" doc:"a task may take at least so long"`
	MaxTaskTimeout     time.Duration     `yaml:"max_task_timeout" doc:"and at most so long"`
	ProfileSteps       int32             `yaml:"profile_steps" doc:"roles record what they do in so many steps"`
	Checkpoint         *checkpoints      `yaml:"checkpoint" doc:"{store, every, rounds, keep}, or none"`
	Resume             string            `yaml:"resume" doc:"checkpoint to go on from: STORE or STORE@STEPS"`
	Labels             map[string]string `yaml:"labels" doc:"of the job, for edl jobs --label"`
	Priority           int32             `yaml:"priority" doc:"of jobs that wait, those with the highest start first: -100 to 100"`
	TrainerCores       *float64          `yaml:"trainer_cores" doc:"that a trainer takes; absent: one for each worker"`
	TrainerMiB         int64             `yaml:"trainer_mib" doc:"memory that a trainer takes; 0: what follows from the program"`
	PServerCores       *float64          `yaml:"pserver_cores" doc:"that a pserver takes; absent: none"`
	PServerMiB         int64             `yaml:"pserver_mib" doc:"memory that a pserver takes; 0: what follows from the program"`
	MaxTime            time.Duration     `yaml:"max_time" doc:"after which the job ends; 0: no bound"`
	Pod                *pod              `yaml:"pod" doc:"what all pods of the job have beside those of its listener, on Kubernetes"`
	TrainerPod         *pod              `yaml:"trainer_pod" doc:"what pods of trainers have beside that, or in its place"`
	PServerPod         *pod              `yaml:"pserver_pod" doc:"what pods of pservers and standbys have beside that, or in its place"`
	Queue              string            `yaml:"queue" doc:"that admits a TrainingJob, such as one of Kueue: the job begins suspended"`
}

// checkpoints is where and how often the state is saved while the job trains. Rounds come before a time.
type checkpoints struct {
	None   bool   `yaml:"-"` // the text none in place of all
	Store  string `yaml:"store"`
	Rounds uint64 `yaml:"rounds"`
	Every  string `yaml:"every"` // as ParseEvery reads it
	Keep   int32  `yaml:"keep"`
}

// A File is a job file as it was read: the spec without its program, and where that is.
type File struct {
	Spec    *job.JobSpec
	Program string // path; relative ones are taken from the folder of the job file
}

// Load reads a job file, which must be a regular file. An unknown field is an error, because it is probably misspelt.
func Load(path string) (*File, error) {
	f, size, err := regularfile.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fault.File(fault.Corrupt, path, err)
	}
	if size > maxFile || len(b) > maxFile {
		return nil, fault.E(fault.TooLarge, fault.At(path), fault.Got("a job file of more than 1 MiB"), fault.Want("a few lines of YAML"))
	}
	read, err := Parse("job file "+path, b)
	if err != nil {
		return nil, err
	}
	if read.Program != "" && !filepath.IsAbs(read.Program) {
		read.Program = filepath.Join(filepath.Dir(path), read.Program)
	}
	return read, nil
}

// Parse reads what a job file has, as YAML or JSON. Errors name where it is from. The path of the program stays as it is written.
func Parse(where string, b []byte) (*File, error) {
	var y file
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&y); err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.Wrap(fault.InvalidArgument, where, plainyaml.Plain(err, "a job file: NAME: VALUE in each line"))
	}
	spec, err := y.spec()
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, where, err)
	}
	return &File{Spec: spec, Program: y.Program}, nil
}

func (y *file) spec() (*job.JobSpec, error) {
	most := y.TrainersMax
	if y.Trainers.most != 0 {
		if most != 0 && most != y.Trainers.most {
			return nil, fault.E(fault.InvalidArgument, fault.Want("one of them"),
				fault.Gotf("trainers_max %d and trainers %d:%d", most, y.Trainers.least, y.Trainers.most))
		}
		most = y.Trainers.most
	}
	s := &job.JobSpec{Name: y.Name, Namespace: y.Namespace, Trainers: y.Trainers.least, TrainersMax: most, Pservers: y.PServers.least, Mode: job.Mode(y.Mode), Passes: y.Passes,
		Save: y.Save, Params: y.Params, Fetch: y.Fetch, MinBlockSize: y.MinBlockSize, NoSlice: y.NoSlice, SplitMethod: y.SplitMethod,
		Transport: job.Transport(y.Transport), CompressGradients: y.CompressGradients, CompressParameters: y.CompressParameters,
		DayRounds: y.DayRounds, PushEvery: y.PushEvery, PullEvery: y.PullEvery, Staleness: y.Staleness,
		Devices: y.Devices, MergeHosts: y.MergeHosts, Standby: y.Standby, BackupTrainers: y.BackupTrainers, NoFiniteCheck: y.NoFiniteCheck, Overwrite: y.Overwrite, RecordsPerTask: y.RecordsPerTask, Workers: y.Workers,
		MaxRestarts: y.MaxRestarts, MaxTaskFailures: y.MaxTaskFailures, ProfileSteps: y.ProfileSteps, Labels: y.Labels, Priority: y.Priority, Queue: y.Queue}
	var err error
	for to, p := range map[**job.Pod]*pod{&s.Pod: y.Pod, &s.TrainerPod: y.TrainerPod, &s.PserverPod: y.PServerPod} {
		if *to, err = p.message(); err != nil {
			return nil, err
		}
	}
	if s.TrainerNeeds, err = Needs(y.TrainerCores, y.TrainerMiB); err == nil {
		s.PserverNeeds, err = Needs(y.PServerCores, y.PServerMiB)
	}
	if err != nil {
		return nil, err
	}
	if s.Resume = y.Resume; y.PServers.most != 0 {
		s.PserversMin, s.PserversMax = y.PServers.least, y.PServers.most
	}
	if c := y.Checkpoint; c != nil {
		s.Checkpoints = &job.Checkpoints{Store: c.Store, Keep: c.Keep, None: c.None}
		if c.Every != "" {
			if err := ParseEvery(c.Every, s.Checkpoints); err != nil {
				return nil, fault.E(fault.InvalidArgument, fault.At("checkpoint.every"), fault.Cause(err))
			}
		}
		s.Checkpoints.Rounds = cmp.Or(c.Rounds, s.Checkpoints.Rounds)
	}
	for _, name := range slices.Sorted(maps.Keys(y.Data)) {
		s.Data = append(s.Data, &job.DataBinding{Dataset: name, Globs: y.Data[name].Files, Follow: y.Data[name].Follow})
	}
	for to, d := range map[**durationpb.Duration]time.Duration{&s.StartDeadline: y.StartDeadline, &s.RoundDeadline: y.RoundDeadline, &s.Lease: y.Lease,
		&s.MinTaskTimeout: y.MinTaskTimeout, &s.MaxTaskTimeout: y.MaxTaskTimeout, &s.MaxTime: y.MaxTime} {
		if d != 0 {
			*to = durationpb.New(d)
		}
	}
	return s, nil
}

// Transports returns the names of the transports, in the order of job.Transport.
func Transports() []string {
	names := make([]string, len(job.Transport_name))
	for i := range names {
		names[i] = strings.ToLower(job.Transport(i).String())
	}
	return names
}

// ParseTransport reads a transport by its name; the empty name is auto.
func ParseTransport(name string) (job.Transport, error) {
	if name == "" {
		return job.Transport_AUTO, nil
	}
	i := slices.Index(Transports(), name)
	if i < 0 {
		return 0, fault.E(fault.InvalidArgument, fault.Got("the transport "+fault.Quote(name)), fault.Want("one of "+strings.Join(Transports(), ", ")))
	}
	return job.Transport(i), nil
}

// ParseMode reads a mode by its name; the empty name is sync.
func ParseMode(name string) (job.Mode, error) {
	switch name {
	case "", "sync":
		return job.Mode_SYNC, nil
	case "async":
		return job.Mode_ASYNC, nil
	}
	return 0, fault.E(fault.InvalidArgument, fault.Gotf("mode %s", fault.Quote(name)), fault.Want("sync or async"))
}

// source is the files of a dataset: one glob, a list of them, or either under files, with follow beside it.
type source struct {
	Files  globs `yaml:"files"`
	Follow bool  `yaml:"follow"`
}

// UnmarshalYAML takes globs for a source that does not follow.
func (s *source) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return n.Decode(&s.Files)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value != "files" && key.Value != "follow" {
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: unknown field %s in data, want files or follow", key.Line, key.Value)}}
		}
	}
	type plain source
	return n.Decode((*plain)(s))
}

// UnmarshalYAML takes the text none for a job that makes no checkpoints.
func (c *checkpoints) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value == "none" {
		c.None = true
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: checkpoint is neither none nor has a store", n.Line)}}
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains([]string{"store", "rounds", "every", "keep"}, key.Value) {
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: unknown field %s in checkpoint, want store, every, rounds or keep", key.Line, key.Value)}}
		}
	}
	type plain checkpoints
	return n.Decode((*plain)(c))
}

// globs is one glob or a list of them.
type globs []string

// UnmarshalYAML takes a scalar for a list of one.
func (g *globs) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*g = globs{n.Value}
		return nil
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return err
	}
	*g = list
	return nil
}

// bounds is N or N:MAX, of the roles of a kind.
type bounds struct{ least, most int32 }

// UnmarshalYAML takes the text, whatever YAML makes of two numbers with a colon between them.
func (b *bounds) UnmarshalYAML(n *yaml.Node) (err error) {
	b.least, b.most, err = ParseBounds(n.Value)
	return atLine(n, err)
}

// mode is sync or async.
type mode job.Mode

// UnmarshalYAML reads the name of a mode.
func (m *mode) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := ParseMode(n.Value)
	*m = mode(parsed)
	return atLine(n, err)
}

// transport is one of Transports.
type transport job.Transport

// UnmarshalYAML reads the name of a transport.
func (t *transport) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := ParseTransport(n.Value)
	*t = transport(parsed)
	return atLine(n, err)
}

// atLine is a mistake in a field, which the decoder collects with the others.
func atLine(n *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
}

// ParseBounds reads N or N:MAX, numbers of roles of a kind; without MAX, most is 0.
func ParseBounds(value string) (least, most int32, err error) {
	first, second, elastic := strings.Cut(value, ":")
	n, err := strconv.ParseInt(first, 10, 32)
	limit := int64(0)
	if err == nil && elastic {
		limit, err = strconv.ParseInt(second, 10, 32)
	}
	if err != nil || n < 1 || elastic && limit < n {
		return 0, 0, fault.E(fault.InvalidArgument, fault.Got(fault.Quote(value)+" as a number of trainers or pservers"),
			fault.Want("N or N:MAX with N <= MAX, such as 2 or 2:4"))
	}
	return int32(n), int32(limit), nil
}
