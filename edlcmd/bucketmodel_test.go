package edlcmd

import (
	"bytes"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
)

// scriptWithBucket runs a script in which MODEL and NOTHING are URLs of a bucket, and which has table.csv.
func scriptWithBucket(t *testing.T, text string) {
	t.Helper()
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close) // after the script, which runs when this function has ended
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("MODEL", "s3://models/line?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(server.URL),
		"NOTHING", "s3://models/nothing?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(server.URL)).Replace(text)
	path := filepath.Join(t.TempDir(), "bucket.txtar")
	if err := os.WriteFile(path, []byte("env AWS_ACCESS_KEY_ID=key\nenv AWS_SECRET_ACCESS_KEY=secret\n"+text+"-- table.csv --\na,b,y\n1,0,3\n0,1,1\n1,1,4\n-1,0,-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runScripts(t, "", path)
}

// A job that nobody waits for begins with a model in a bucket as a run does: its listener copies the model.
func TestSubmittedJobBeginsWithModelInBucket(t *testing.T) {
	scriptWithBucket(t, `program line program.pb
exec edl data csv table.csv -o data --label-type float32
exec edl run program.pb --data 'train=data/train-*' --save 'MODEL'
exec edl run program.pb --data 'train=data/train-*' --params 'MODEL' --passes 2 --save want
address ADDRESS
! exec edl listen --addr $ADDRESS --quiet &listener&
until '^JOB ' edl jobs --listener $ADDRESS
exec edl submit program.pb --data 'train=data/train-*' --params 'MODEL' --passes 2 --save got --name on
until '^on +succeeded' edl jobs
cmp got/prediction.w_0 want/prediction.w_0
cmp got/__progress__ want/__progress__
exits 2 edl submit program.pb --data 'train=data/train-*' --params 'NOTHING'
oneline
stderr 's3://models/nothing.*no saved model, want a URL that --save has written to'
kill -INT listener
wait listener
`)
}

// A model in a bucket is served as it was copied, with the name of its folder.
func TestServeModelInBucket(t *testing.T) {
	scriptWithBucket(t, `program line program.pb
exec edl data csv table.csv -o data --label-type float32
exec edl run program.pb --data 'train=data/train-*' --export 'MODEL' --export-fetch prediction
exec edl run 'MODEL' --feed x.csv
cp stdout want
stdout '^prediction '
address ADDRESS
! exec edl serve 'MODEL' --addr $ADDRESS &server&
ask 200 '"name":"line","outputs":\[{"name":"prediction",' http://$ADDRESS/v2/models/line
ask 200 '"model_version":"1".*"data":\[' http://$ADDRESS/v2/models/line/infer request.json
exec edl run program.pb --data 'train=data/train-*' --passes 2 --export 'MODEL' --export-fetch prediction
ask 200 '"model_version":"1".*"data":\[' http://$ADDRESS/v2/models/line/infer request.json
kill -INT server
wait server
exits 2 edl serve 'NOTHING'
oneline
stderr 's3://models/nothing'
-- x.csv --
1,0
-- request.json --
{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 0]}]}
`)
}

// A model goes to a bucket and comes back from it as it does from a directory. Another one in its place is refused without --overwrite, in a bucket and in a directory.
func TestModelsInBuckets(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	at := func(folder string) string {
		return "s3://models/" + folder + "?region=us-east-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL)
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := testkit.Reading(t, 8, optimizer.SGD(0.1)).Program.Save(path("program.pb")); err != nil {
		t.Fatal(err)
	}
	m := layers.NewModel()
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.Batch(r, 8))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(batch[0], 7), 1, layers.Name("prediction")), batch[1]), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	if err := testkit.Built(t, m, loss).Program.Save(path("other.pb")); err != nil {
		t.Fatal(err)
	}
	data := "train=" + testkit.Samples(t, path("data"), 100)[testkit.Dataset][0]
	edl := func(want int, says string, args ...string) string {
		t.Helper()
		var out, diagnostics bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &out, &diagnostics); code != want || !strings.Contains(diagnostics.String(), says) {
			t.Fatalf("edl %s ended with %d: %s", strings.Join(args, " "), code, diagnostics.String())
		}
		return out.String()
	}
	train := func(want int, says string, args ...string) {
		t.Helper()
		edl(want, says, append([]string{"run", path("program.pb"), "--data", data}, args...)...)
	}
	same := func(a, b string) {
		t.Helper()
		if edl(0, "", "diff", a, b) == "" {
			t.Errorf("no comparison of %s and %s", a, b)
		}
	}
	train(0, "", "--save", path("here"))
	edl(0, "", "run", path("other.pb"), "--data", data, "--save", path("other"))
	train(0, "", "--save", at("there"))
	train(0, "goes on at pass 1", "--params", at("there"), "--save", "file://"+path("went"))
	train(0, "goes on at pass 1", "--params", path("here"), "--save", path("on"))
	if got, want := edl(0, "", "show", at("there")), edl(0, "", "show", path("here")); got == "" || got != want {
		t.Errorf("edl show tells of a model in a bucket:\n%s\nand of the same in a directory:\n%s", got, want)
	}
	same(path("went"), path("on"))
	if !testing.Short() { // the trainer that saves writes to the bucket
		cluster := exec.CommandContext(t.Context(), edlFile(t), "run", path("program.pb"), "--data", data, "--params", path("here"), "--save", at("cluster"), "--remote", "--trainers", "1", "--pservers", "1")
		if out, err := cluster.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		train(0, "goes on at pass 2", "--params", at("cluster"))
	}
	if entries, err := os.ReadDir("."); err != nil {
		t.Error(err)
	} else {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "s3:") || strings.HasPrefix(e.Name(), "file:") {
				t.Errorf("a folder named %s", e.Name())
			}
		}
	}

	// An exported model runs from where it is, and is exported from a saved one.
	row := strings.TrimSuffix(strings.Repeat("0.5,", testkit.Width), ",") + "\n"
	if err := os.WriteFile(path("x.csv"), []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	train(0, "", "--export", at("served"), "--export-fetch", "prediction")
	edl(0, "", "export", at("there"), "--program", path("program.pb"), "--fetch", "prediction", "-o", path("served"))
	if got, want := edl(0, "", "run", at("served"), "--feed", path("x.csv")), edl(0, "", "run", path("served"), "--feed", path("x.csv")); got != want || got == "" {
		t.Errorf("%q from a bucket, %q from a directory", got, want)
	}

	// Another model there is replaced with --overwrite only, the same one without.
	for _, place := range []struct{ saved, exported string }{{at("there"), at("served")}, {path("here"), path("served")}} {
		other := []string{"run", path("other.pb"), "--data", data}
		train(0, "", "--save", place.saved, "--export", place.exported, "--export-fetch", "prediction")
		edl(2, "--overwrite", append(other, "--save", place.saved)...)
		edl(2, "--overwrite", append(other, "--export", place.exported, "--export-fetch", "prediction")...)
		edl(2, "--overwrite", "export", path("other"), "--program", path("other.pb"), "--fetch", "prediction", "-o", place.exported, "--format", "onnx")
		edl(0, "", append(other, "--save", place.saved, "--export", place.exported, "--export-fetch", "prediction", "--overwrite")...)
		edl(0, "", append(other, "--save", place.saved, "--params", place.saved)...)
		edl(2, "--overwrite", "run", path("program.pb"), "--data", data, "--save", place.saved)
		edl(0, "", "run", place.exported, "--feed", path("x.csv"))
	}
	train(2, "--save", "--overwrite")
}
