package kserve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// rowBytes is how much memory a byte of a request of rows may take while its cells are made, at most.
const rowBytes = 8

// rowReaders has the reader of rows for the present version of a model.
type rowReaders struct {
	read    func() (*schema.Schema, error)
	mu      sync.Mutex
	version int // of the model that reader and err are for; 0: none
	reader  *rowReader
	err     error
}

// of returns the reader for the present version of the model. A schema that does not fit the inputs of the model is an error.
func (r *rowReaders) of(m *serving.Model) (*rowReader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, times := m.Loaded(); times != r.version {
		r.version, r.reader = times, nil
		var s *schema.Schema
		if s, r.err = r.read(); r.err == nil {
			r.reader, r.err = newRowReader(s, m.Schema().Inputs)
		}
	}
	return r.reader, r.err
}

// A rowReader makes inputs of rows of a table, as records for training were made of them.
type rowReader struct {
	schema  *schema.Schema
	columns []string // that rows have when the model is used
	encoder *schema.Encoder
}

func newRowReader(s *schema.Schema, inputs []serving.Field) (*rowReader, error) {
	r := &rowReader{schema: s, columns: s.InputColumns()}
	var err error
	if r.encoder, err = schema.NewEncoder(s, r.columns, true); err != nil {
		return nil, err
	}
	for _, input := range inputs {
		if err := r.fits(input); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fits checks that the schema makes an input of the model.
func (r *rowReader) fits(input serving.Field) error {
	var names []string
	for _, f := range r.encoder.Fields() {
		if names = append(names, f.Name); f.Name != input.Name {
			continue
		}
		width := int64(1) // of the dims without rows
		for _, n := range input.Dims[min(1, len(input.Dims)):] {
			width *= n
		}
		if f.DType != input.DType || f.Dims[0] != width || f.LoDLevel != input.LoDLevel {
			return fault.E(fault.InvalidArgument, fault.At("schema"), fault.Var(f.Name), fault.Gotf("a field %v%v with %d LoD levels", f.DType, f.Dims, f.LoDLevel),
				fault.Wantf("%v%v with %d, as the model has it", input.DType, []int64{width}, input.LoDLevel), fault.Hint("give the schema that the model was trained with"))
		}
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.At("schema"), fault.Var(input.Name), fault.Got("an input of the model that is no field of the schema"), fault.Wantf("one of %v", names),
		fault.Hint("give the schema that the model was trained with"))
}

// serveRows answers a request of rows, {"rows": [{"age": 39, "city": "Bern"}]}, as infer does one of inputs. "id" and "outputs" mean the same.
func (s *Server) serveRows(w http.ResponseWriter, q *http.Request) {
	began := time.Now()
	if s.rows == nil {
		refuse(w, fault.E(fault.NotFound, fault.Got("rows for a server without a schema"), fault.Want("inputs, at .../infer; or \"edl serve MODEL --schema FILE\"")))
		return
	}
	err := s.withBody(q, rowBytes, func(body []byte) error {
		reader, err := s.rows.of(s.model)
		if err != nil {
			return fault.Wrap(fault.Internal, "the schema of the model", err)
		}
		schema := s.model.Schema()
		r, err := reader.read(body, &schema)
		if err != nil {
			return err
		}
		return s.predict(w, q, r, &schema)
	})
	if err != nil {
		refuse(w, err)
	}
	s.metrics.answered("http", err, time.Since(began))
}

// read reads the body of a request.
func (r *rowReader) read(body []byte, model *serving.Schema) (*request, error) {
	var asked struct {
		ID      string                       `json:"id"`
		Rows    []map[string]json.RawMessage `json:"rows"`
		Outputs []struct {
			Name string `json:"name"`
		} `json:"outputs"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&asked); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			err = nil // it speaks of types of Go
		}
		return nil, fault.E(fault.InvalidArgument, fault.Got("a request that is no JSON object with rows"), fault.Want(`{"rows": [{"column": value}], "outputs": [{"name": "..."}]}, without outputs for all`), fault.Cause(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.E(fault.InvalidArgument, fault.Got("more behind the object"), fault.Want("the end"))
	}
	if len(asked.Rows) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("rows"), fault.Got("no row"), fault.Want("at least one"))
	}
	rows := make([]schema.Row, len(asked.Rows))
	for i, object := range asked.Rows {
		row, err := r.schema.RowOf(r.columns, object)
		row.Place = fmt.Sprintf("row %d", i)
		if err != nil {
			return nil, fault.Wrap(fault.InvalidArgument, row.Place, err)
		}
		rows[i] = row
	}
	tensors, err := r.encoder.Batch(rows)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, "rows", err)
	}
	request := &request{id: asked.ID, inputs: map[string]*tensor.Tensor{}}
	for _, o := range asked.Outputs {
		request.outputs = append(request.outputs, o.Name)
	}
	made := map[string]*tensor.Tensor{}
	for i, f := range r.encoder.Fields() {
		made[f.Name] = tensors[i]
	}
	for _, f := range model.Inputs { // what the model does not need is left out
		request.inputs[f.Name] = made[f.Name]
	}
	return request, request.checkOutputs(model)
}
