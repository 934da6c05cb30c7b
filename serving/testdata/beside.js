// Times a model in ONNX Runtime with one thread. The first line of the standard input is {"model": PATH, "inputs": {NAME: {"type", "dims"}}}. Each further line is a number
// of predictions: they are made, and the answer is a line {"clock", "processor"} with the microseconds of one of them.
const ort = require('onnxruntime-node')
const lines = require('readline').createInterface({input: process.stdin})[Symbol.asyncIterator]()
const next = async () => (await lines.next()).value

async function main() {
  const {model, inputs} = JSON.parse(await next())
  const session = await ort.InferenceSession.create(model, {intraOpNumThreads: 1, interOpNumThreads: 1, graphOptimizationLevel: 'all'})
  const feed = {}
  for (const [name, {type, dims}] of Object.entries(inputs)) {
    const n = dims.reduce((a, b) => a * b, 1)
    const data = type === 'float32' ? Float32Array.from({length: n}, Math.random)
      : BigInt64Array.from({length: n}, () => BigInt(Math.floor(260000 * Math.random())))
    feed[name] = new ort.Tensor(type, data, dims)
  }
  for (let line; (line = await next());) {
    const used = process.cpuUsage(), began = process.hrtime.bigint(), n = Number(line)
    for (let i = 0; i < n; i++) await session.run(feed)
    const clock = Number(process.hrtime.bigint() - began) / 1000, {user, system} = process.cpuUsage(used)
    console.log(JSON.stringify({clock: clock / n, processor: (user + system) / n}))
  }
}

main().catch((err) => { console.error(String(err)); process.exit(1) })
