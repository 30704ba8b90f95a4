-- wrk: send each line of a file as a POST, in turn, with a running number as the id; say what came.
-- Arguments after "--": the file, and after how many answers to end (0: after the time of -d).
-- wrk itself ends after its time only, so the end by number is the process's, with what is known.
local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } instant;
  int clock_gettime(int clock, instant *now);
]]
local bodies, sent, came, refused, most, began = {}, 0, 0, 0, 0, 0

local function now()
  local instant = ffi.new("instant")
  ffi.C.clock_gettime(1, instant)
  return tonumber(instant.seconds) + tonumber(instant.nanoseconds) / 1e9
end

function init(args)
  for line in io.lines(args[1]) do bodies[#bodies + 1] = line end
  most = tonumber(args[2])
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
end

function request()
  -- wrk asks for one request before it begins, and sends it to nobody.
  if sent <= 1 then began = now() end
  -- Nothing more is asked than is waited for.
  if most > 0 and sent > most then return wrk.format("GET", "/healthz") end
  sent = sent + 1
  local body = bodies[(sent - 1) % #bodies + 1]
  return wrk.format(nil, nil, nil, '{"id": "' .. sent .. '", ' .. body:sub(2))
end

function delay()
  return most > 0 and sent > most and 500 or 0
end

function response(status, _, body)
  if body:sub(1, 10) == '{"status":' then return end
  came = came + 1
  if status ~= 200 then refused = refused + 1 end
  if came == most then
    io.write(string.format('\n{"requests": %d, "seconds": %.6f, "refused": %d, "broken": 0}\n',
      came, now() - began, refused))
    io.flush()
    os.exit(0)
  end
end

function done(summary, latency)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "p50": %.6f, "p99": %.6f, "refused": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6,
    latency:percentile(99) / 1e6, errors.status, broken))
end
