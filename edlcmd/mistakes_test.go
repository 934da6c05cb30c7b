package edlcmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// command runs a command line in this process, and returns what it writes to standard error.
func command(t *testing.T, line string) (code int, diagnostics string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // of a command that takes what was meant as a mistake
	defer cancel()
	var said bytes.Buffer
	code = run(ctx, strings.Fields(line), strings.NewReader(""), io.Discard, &said)
	return code, said.String()
}

// newUser makes the folder of somebody who goes from a table to a served model: table.csv, schema.yaml, records, program.pb, a model and served.
func newUser(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, t.TempDir())
	}
	files := map[string]string{
		"table.csv":   "age,city,income\n39,Bern,1\n20,Rome,0\n51,Bern,1\n33,Oslo,0\n",
		"renamed.csv": "years,city,income\n39,Bern,1\n",
		"words.csv":   "age,city,income\n39,Bern,1\nold,Rome,0\n",
		"short.csv":   "age,city,income\n39,Bern,1\n20,Rome\n",
		"empty.csv":   "",
		"head.csv":    "age,city,income\n",
		"typo.yaml":   "colums:\n- name: age\n",
		"wrong.yaml":  "columns:\n- name: age\n  kind: nummber\n",
		"sweep.yaml":  "program: nothing.pb\n",
		"cert.pem":    "no certificate\n",
		"x.csv":       "1,2\n3,4\n",
		"y.csv":       "1,2,3\n",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m := layers.NewModel().Seed(1)
	table := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.Batch(table, 4))
	optimizer.SGD(0.01).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(batch[0], 1, layers.Name("price")), batch[1]), layers.Name("loss")))
	other := layers.NewModel().Seed(1)
	label := layers.OpenDataset(other, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1), layers.DType(tensor.Int64)))
	read := layers.Read(layers.Batch(label, 4))
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(read[0], 7, layers.Name("score")), read[1])
	optimizer.SGD(optimizer.Exponential(0.1, 2, 0.5, false)).Minimize(layers.Mean(cost, layers.Name("loss")))
	for name, model := range map[string]*layers.Model{"program.pb": m, "classes.pb": other} {
		p, err := model.Program()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Save(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("houses.csv", []byte("a,b,y\n1,0,3\n0,1,1\n1,1,4\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"data infer table.csv --label income -o schema.yaml",
		"data table table.csv --schema schema.yaml -o people",
		"data csv houses.csv -o houses --label-type float32",
		"run program.pb --data train=houses/train-* --passes 1 --save model --export served --export-fetch price",
	} {
		if code, said := command(t, line); code != 0 {
			t.Fatalf("edl %s: %s", line, said)
		}
	}
}

// partOfAModel copies the exported model to part, without its first parameter.
func partOfAModel(t *testing.T) {
	t.Helper()
	if err := os.CopyFS("part", os.DirFS("served")); err != nil {
		t.Fatal(err)
	}
	weights, err := filepath.Glob("part/*.w_0")
	if err != nil || len(weights) != 1 {
		t.Fatalf("got %v, %v, want the weights of one layer", weights, err)
	}
	if err := os.Remove(weights[0]); err != nil {
		t.Fatal(err)
	}
}

// Each message that somebody meets who goes from a table to a served model for the first time says what is wrong, where, and what to do.
func TestMistakesOfANewUser(t *testing.T) {
	newUser(t)
	partOfAModel(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, mistake := range []struct{ line, says string }{
		// From a table to records.
		{"data infer tabel.csv", `no such file or directory; did you mean "table.csv"\?`},
		{"data infer empty.csv", `want a first row with the names of the columns`},
		{"data infer head.csv", `no row for training, want at least one`},
		{"data infer table.csv --label incom", `did you mean "income"\?`},
		{"data table table.csv --schema shema.yaml -o out", `^edl: shema.yaml: .*did you mean "schema.yaml"\?`},
		{"data table table.csv --schema typo.yaml -o out", `typo.yaml, line 1: .*did you mean "columns"\?`},
		{"data table table.csv --schema wrong.yaml -o out", `wrong.yaml, line 3: .*"kind".*docs/data.md`},
		{"data table renamed.csv --schema schema.yaml -o out", `^edl: renamed.csv: .*no column "age", want one of the columns of the table: "years", "city", "income"`},
		{"data table words.csv --schema schema.yaml -o out", `^edl: words.csv, line 3, variable "age": .*got "old", want a number`},
		{"data table short.csv --schema schema.yaml -o out", `^edl: short.csv, line 3: .*got 2 columns, want 3`},
		{"data table head.csv --schema schema.yaml -o out", `^edl: head.csv: .*got no records, want at least one`},
		{"data table table.csv -o out", `want --schema FILE; "edl data infer table.csv -o schema.yaml" proposes one`},
		{"data table table.csv --schema schema.yaml", `want -o DIR`},
		{"data table table.csv --schema schema.yaml -o table.csv", `^edl: table.csv: not a directory; name a directory`},
		{"data csv table.csv -o out", `^edl: table.csv, line 2, variable "city": .*got "Bern", want a number.*--keys city`},
		{"data show table.cvs", `did you mean "table.csv"\?`},
		{"data stats program.pb", `want a name that ends in .csv, `},
		// Training.
		{"run progam.pb --data train=houses/train-*", `^edl: progam.pb: .*did you mean "program.pb"\?`},
		{"run table.csv --data train=houses/train-*", `^edl: table.csv: .*want a program file, or a directory with __model__`},
		{"run program.pb", `no files for the dataset "train" .*bind it with --data train=GLOB`},
		{"run program.pb --data tarin=houses/train-*", `"train" \(bound: tarin\).*--data train=GLOB`},
		{"run program.pb --data train=house/train-*", `no file for dataset glob "house/train-\*", .*did you mean "houses"\?`},
		{"run program.pb --data train=houses/trian-*", `did you mean "houses/train-00000-of-00001"\?`},
		{"run program.pb --dta train=houses/train-*", `unknown flag: --dta; did you mean "--data"\?`},
		{"run program.pb --data train=nowhere/at/all-*", `no file for dataset glob .*a relative glob starts in the working directory`},
		{"run program.pb --data houses/train-*", `want NAME=GLOB, such as train='data/train-\*'`},
		{"run program.pb --data train=people/train-*", `^edl: people/train-00000-of-00001: record 0: .*got 3 tensors, want 2, the fields that are read: x float32\[2\], y float32\[1\]`},
		{"run classes.pb --data train=houses/train-*", `record 0, variable "y": type mismatch: got float32\[1\], want int64\[1\]`},
		{"run program.pb --data train=table.csv", `want --schema FILE, .*"edl data infer table.csv -o schema.yaml" proposes one`},
		{"run program.pb --data train=houses/train-* --fetch los", `did you mean "loss"\?`},
		{"run program.pb --data train=houses/train-* --save served", `want another directory; --export writes a trained model there`},
		{"run program.pb --data train=houses/train-* --export other --export-fetch prise", `did you mean "price"\?`},
		{"run program.pb --data train=houses/train-* --params nothing", `^edl: nothing: no such file or directory; a relative path starts in the working directory`},
		{"run classes.pb --data train=houses/train-* --params model", `want the directory of this program; .*--partial`},
		{"run program.pb --data train=houses/train-* --batch-size 0", `--batch-size: .*want 1 or more`},
		{"run classes.pb --data train=houses/train-* --learning-rate 0.1", `--learning-rate: .*want one with a constant rate`},
		{"run program.pb --data train=houses/train-* --eval-data train=houses/train-* --stop-when auc~better", `such as "auc not better for 3"`},
		{"run program.pb --data train=houses/train-* --metric auk", `want it together with --eval-data NAME=GLOB`},
		{"run program.pb --data train=houses/train-* --remote=127.0.0.1:1", `start one there with "edl listen"`},
		{"run program.pb --data train=houses/train-* --remote --trainers 0", `--trainers: .*want N or N:MAX`},
		{"run program.pb --data train=houses/train-* --save table.csv", `name a directory that can be made and written to`},
		{"sweep -f sweep.yaml", `want -f FILE -o DIR`},
		// A model for use.
		{"export model -o out --fetch price", `want --program FILE, the program that was trained`},
		{"export model --program program.pb --fetch price", `want -o DIR`},
		{"export model --program program.pb --fetch prise -o out", `did you mean "price"\?`},
		{"export model --program program.pb -o out", `want --fetch NAME,..., the variables that the model computes`},
		{"export modell --program program.pb --fetch price -o out", `^edl: modell: no such file or directory; did you mean "model"\?`},
		{"export model --program program.pb --fetch price -o model", `got the directory that is exported, want another one`},
		{"export model --program program.pb --fetch price -o out --format onxx", `want fluid or safetensors or npz or onnx`},
		{"run served", `no value for x float32\[-1 2\], want --feed NAME=FILE`},
		{"run served --feed y=x.csv", `variable "y": .*want one of x`},
		{"run served --feed x=y.csv", `got a feed of float32\[1 3\], want float32\[-1 2\]`},
		{"run served --feed x=z.npy", `^edl: z.npy: no such file or directory`},
		// In service.
		{"attach digits --remote=127.0.0.1:7164", `unknown flag: --remote; did you mean "--listener"\?`},
		{"run program.pb --data train=houses/train-* --save s3:/models/houses", `want s3://models/houses, or \./s3:/models/houses for a folder`},
		{"serve servd", `^edl: servd: .*did you mean "served"\?`},
		{"serve model", `want a model that was exported; "edl export" writes one`},
		{"serve program.pb", `--fetch NAME,... says what the model computes`},
		{"serve served --fetch prise", `did you mean "price"\?`},
		{"serve served --addr " + taken.Addr().String(), `address already in use; name another address or port`},
		{"serve part", `^edl: part, variable .*: not found: .*export the model again: "edl export" writes`},
		{"serve served --addr 8500", `want HOST:PORT, such as 127.0.0.1:`},
		{"serve served --addr 0.0.0.0:8500", `want --tls-cert and --tls-key, or --insecure`},
		{"serve served --tls-cert cert.pem", `want --tls-cert and --tls-key`},
		{"serve served --tls-cert cert.pem --tls-key cert.pem", `want a certificate in --tls-cert and its key in --tls-key, both as PEM`},
		{"serve served --schema schema.yaml", `give the schema that the model was trained with`},
		// Jobs.
		{"resume clicks", `did you mean "edl jobs resume"\?`},
		{"list", `did you mean "edl checkpoint list" or "edl node list" or "edl token list"\?`},
		{"revoke somebody", `did you mean "edl token revoke"\?`},
		{"listen --web 127.0.0.1:7165", `^edl: --web: .*want --web=127.0.0.1:7165`},
		{"listen --addr 127.0.0.1:0 --web=" + taken.Addr().String(), `^edl: --web .*address already in use; name another address or port`},
		{"jobs", `want --listener ADDR; "edl run --remote" and "edl listen" start one`},
		{"jobs show clicks", `no listener on this machine that has job "clicks", want --listener ADDR`},
		{"why clicks", `want --listener ADDR; if it has ended, start "edl listen" again`},
		{"checkpoint list stor", `want a folder or bucket that a job has written checkpoints to`},
		{"checkpoint show model", `want a folder or bucket that a job has written checkpoints to`},
	} {
		code, said := command(t, mistake.line)
		lines := strings.SplitAfter(strings.TrimSpace(said), "\n")
		if last := lines[len(lines)-1]; code == 0 || !strings.HasPrefix(last, "edl: ") || !regexp.MustCompile(mistake.says).MatchString(last) {
			t.Errorf("edl %s: exit code %d and\n%swant a last line with %s", mistake.line, code, said, mistake.says)
		}
	}
}

// Each answer to a wrong request says what is wrong and what the model takes.
func TestMistakesInRequests(t *testing.T) {
	newUser(t)
	ctx, stop := context.WithCancel(t.Context())
	reads, writes := io.Pipe()
	var server sync.WaitGroup
	server.Go(func() {
		_ = writes.CloseWithError(fmt.Errorf("exit code %d", run(ctx, strings.Fields("serve served --addr 127.0.0.1:0 --quiet"), strings.NewReader(""), writes, io.Discard)))
	})
	defer server.Wait()
	defer stop()
	var url string
	if _, err := fmt.Fscanf(reads, "serving served at %s\n", &url); err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []struct{ path, body, says string }{
		{"/infer", ``, `want a request such as`},
		{"/infer", `x=1`, `want a request such as`},
		{"/infer", `{"inputs": []}`, `no value, want x float32`},
		{"/infer", `{"inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}`, `did you mean \\"x\\"\?`},
		{"/infer", `{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}`, `got float32\[1 3\], want x float32\[-1 2\]`},
		{"/infer", `{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "INT64", "data": [1, 2]}]}`, `got datatype .*, want FP32`},
		{"/infer", `{"inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2]}]}`, `got 2 elements, want those of shape \[2 2\]`},
		{"/infer", `{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": ["a", 2]}]}`, `byte 72 of the request: .*want a number`},
		{"/infer", `{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}], "outputs": [{"name": "prise"}]}`, `did you mean \\"price\\"\?`},
		{"/rows", `{"rows": [{"age": 1}]}`, `edl serve MODEL --schema FILE`},
		{"x/infer", `{}`, `want \\"served\\"`},
	} {
		response, err := http.Post(url+mistake.path, "application/json", strings.NewReader(mistake.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode < 400 || response.StatusCode >= 500 || !regexp.MustCompile(mistake.says).Match(body) {
			t.Errorf("%s %s: status %d, %v and\n%s\nwant %s", mistake.path, mistake.body, response.StatusCode, err, body, mistake.says)
		}
	}
}
