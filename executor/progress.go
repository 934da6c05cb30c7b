package executor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
)

// ProgressFile is the name of the file that holds the Progress in a directory of saved variables. No variable of this name can be saved.
const ProgressFile = "__progress__"

// MaxProgressFiles bounds Progress.Files in bytes.
const MaxProgressFiles = 1 << 20

const (
	progressVersion = 1
	trainedVersion  = 2                                      // with Progress.Trained
	segmentVersion  = 3                                      // with Progress.Trained and Progress.Batch
	filesVersion    = 4                                      // with Progress.Files
	progressLimit   = 1024 + trainedLimit + MaxProgressFiles // bytes of the file
	trainedLimit    = 1 << 20                                // bytes of Progress.Trained
	readerLimit     = 128                                    // bytes of Progress.Reader
)

// Bounds of a Progress. Each leaves room for as much again, so that no number of a run that begins with it can wrap.
const (
	maxSteps = math.MaxInt64 / 2
	maxPass  = math.MaxInt32 / 2

	maxRecord = 1 << 48 // in Trained
)

// CheckPasses refuses a TrainOptions.Passes that is out of range.
func CheckPasses(n int) error {
	if n >= 0 && n <= maxPass {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Gotf("%d passes", n), fault.Wantf("0 to %d", maxPass), fault.Hint("0 leaves the number to the program"))
}

// progressText is the content of a ProgressFile: JSON on one line, in exactly the form that encodeProgress writes.
type progressText struct {
	Version int    `json:"version"`
	Steps   uint64 `json:"steps"`
	Pass    int    `json:"pass"`
	Batch   uint64 `json:"batch"`
	Reader  string `json:"reader"`
	Trained string `json:"trained,omitempty"`
	Files   string `json:"files,omitempty"`
}

// checkTrained refuses a Trained that is no part of a state.
func (p Progress) checkTrained() error {
	_, ok := ranges.OfText(p.Trained, maxRecord)
	switch {
	case len(p.Trained) > trainedLimit:
		return fault.E(fault.InvalidArgument, fault.Gotf("%d bytes that say which records of a pass are trained", len(p.Trained)), fault.Wantf("at most %d", trainedLimit))
	case !ok || p.Trained != "" && p.Reader == "":
		return fault.E(fault.InvalidArgument, fault.Gotf("the trained records %s", fault.Quote(p.Trained)),
			fault.Want("numbers of records, and the hash of the reader that they belong to"))
	}
	return nil
}

// Check reports whether p may be part of a state: its numbers are in range, and a position in the data has the hash of its reader.
func (p Progress) Check() error {
	bad := func(got, want string) error { return fault.E(fault.InvalidArgument, fault.Got(got), fault.Want(want)) }
	switch {
	case p.Steps > maxSteps:
		return bad(fmt.Sprintf("%d steps", p.Steps), fmt.Sprintf("0 to %d", uint64(maxSteps)))
	case p.Pass < 0 || p.Pass > maxPass:
		return bad(fmt.Sprintf("pass %d", p.Pass), fmt.Sprintf("0 to %d", maxPass))
	case p.Batch > math.MaxInt64:
		return bad(fmt.Sprintf("batch %d", p.Batch), fmt.Sprintf("0 to %d", math.MaxInt64))
	case len(p.Reader) > readerLimit:
		return bad(fmt.Sprintf("a reader hash of %d bytes", len(p.Reader)), fmt.Sprintf("at most %d", readerLimit))
	case p.Reader == "" && (p.Pass != 0 || p.Batch != 0):
		return bad(fmt.Sprintf("pass %d, batch %d without a reader hash", p.Pass, p.Batch), "the hash of the reader that they belong to")
	}
	if err := p.checkTrained(); err != nil {
		return err
	}
	if _, err := base64.StdEncoding.DecodeString(p.Files); err != nil || len(p.Files) > MaxProgressFiles || p.Files != "" && p.Reader == "" {
		return bad(fmt.Sprintf("%d bytes of files", len(p.Files)), fmt.Sprintf("at most %d in base64, and the hash of the reader that they belong to", MaxProgressFiles))
	}
	return nil
}

// encodeProgress writes p as a ProgressFile holds it.
func encodeProgress(p Progress) ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	version := progressVersion
	switch {
	case p.Files != "":
		version = filesVersion
	case p.Trained != "" && p.Batch > 0:
		version = segmentVersion
	case p.Trained != "":
		version = trainedVersion
	}
	text, err := json.Marshal(progressText{version, p.Steps, p.Pass, p.Batch, p.Reader, p.Trained, p.Files})
	return append(text, '\n'), err
}

// decodeProgress reads what encodeProgress wrote and nothing else: written again it has the same bytes.
func decodeProgress(text []byte) (Progress, error) {
	corrupt := func(got, want string) (Progress, error) {
		return Progress{}, fault.E(fault.Corrupt, fault.Got(got), fault.Want(want), fault.Hint("without this file, training begins at the first step"))
	}
	if len(text) > progressLimit {
		return corrupt("a longer file", fmt.Sprintf("at most %d bytes", progressLimit))
	}
	var t progressText
	if err := json.Unmarshal(text, &t); err != nil {
		return corrupt(fault.Quote(string(text)), "the progress of a training run")
	}
	if t.Version < progressVersion || t.Version > filesVersion {
		return Progress{}, fault.E(fault.Unsupported, fault.Gotf("progress of version %d", t.Version), fault.Wantf("version %d to %d", progressVersion, filesVersion))
	}
	p := Progress{Steps: t.Steps, Pass: t.Pass, Batch: t.Batch, Reader: t.Reader, Trained: t.Trained, Files: t.Files}
	again, err := encodeProgress(p)
	if err != nil {
		return corrupt(err.Error(), "the progress of a training run")
	}
	if !bytes.Equal(again, text) {
		return corrupt(fault.Quote(string(text)), fault.Quote(string(again)))
	}
	return p, nil
}

// WriteProgress writes p to dir, where the variables of the state were saved. The file appears whole or not at all.
func WriteProgress(dir string, p Progress) error {
	text, err := encodeProgress(p)
	if err != nil {
		return err
	}
	return Files{}.inRoot(dir, true, func(root *os.Root) error {
		return writeWhole(root, ProgressFile, true, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	})
}

// RemoveProgress removes the Progress from dir, if there is one. Call it before you write other variables to dir: a Progress belongs to the
// variables that it was saved with.
func RemoveProgress(dir string) error {
	err := os.Remove(filepath.Join(dir, ProgressFile))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.File(fault.InvalidArgument, dir, err)
}

// ReadProgress returns the Progress that was saved with the variables in from, and whether there is one: a combined file has none, and neither has
// a directory that Fluid wrote. It fails where CheckComplete does.
func ReadProgress(from string) (Progress, bool, error) { return Files{}.ReadProgress(from) }

// readProgressIn reads the file of a Progress.
func readProgressIn(files Files, path string) (Progress, bool, error) {
	f, _, err := files.allowed.Open(fault.InvalidArgument, path)
	if err != nil {
		return Progress{}, false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, progressLimit+1))
	if err != nil {
		return Progress{}, false, fault.File(fault.Unavailable, path, err)
	}
	p, err := decodeProgress(text)
	var found *fault.Fault
	if errors.As(err, &found) {
		return Progress{}, false, found.In(path, ", ")
	}
	return p, err == nil, err
}

// ReaderHash returns a hash of how p reads its data: the name of the dataset, the types and dims of its fields, the batch size, whether a last
// small batch is left out, and the shuffle. Programs with the same hash read the same batches in the same order. How far a program reads ahead and
// how often it reads the dataset are not part of it. It is empty for a program that reads nothing, or whose readers are wrong.
func ReaderHash(p *program.Program) string {
	read, err := ReadOp(p)
	if err != nil {
		return ""
	}
	r, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q batch %d drop_last %t shuffle %d", r.Dataset, r.Batch, r.DropLast, r.ShuffleBuffer)
	if r.ShuffleBuffer > 0 {
		fmt.Fprintf(h, " seed %d", r.ShuffleSeed)
		if r.ShuffleGroup > 1 {
			fmt.Fprintf(h, " group %d", r.ShuffleGroup)
		}
	}
	for _, f := range r.Fields {
		fmt.Fprintf(h, " %v%v", f.DType, f.Dims)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
