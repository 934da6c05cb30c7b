// Runs a model with ONNX Runtime. Reads {"model": PATH, "feed": {NAME: {"type", "dims", "data"}}} from the standard input, and writes {NAME: {"dims", "data"}}.
const ort = require('onnxruntime-node')

async function main() {
  const request = JSON.parse(require('fs').readFileSync(0))
  const session = await ort.InferenceSession.create(request.model)
  const feed = {}
  for (const [name, v] of Object.entries(request.feed)) {
    const data = v.type === 'float32' ? Float32Array.from(v.data) : BigInt64Array.from(v.data.map(BigInt))
    feed[name] = new ort.Tensor(v.type, data, v.dims)
  }
  const out = {}
  for (const [name, v] of Object.entries(await session.run(feed))) {
    out[name] = {dims: v.dims, data: Array.from(v.data, Number)}
  }
  console.log(JSON.stringify(out))
}

main().catch((err) => { console.error(String(err)); process.exit(1) })
