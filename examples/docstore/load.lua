-- SPDX-License-Identifier: BSD-2-Clause
-- wrk's script for docstore: stores all documents once (phase "seed"), or mixes the routes as clients would ("mix").
--
-- Started by `load`, as: wrk … -s load.lua URL -- PHASE DOCUMENTS COPIES TENANTS PAUSE SEARCHES
-- DOCUMENTS has a line "collection TAB id TAB JSON" a document; COPIES documents are made of each. The others may be 0.
-- Every request is for something that is there, so that any status but success is an error.

local tenants = {
    {}, -- no header
    {["X-Tenant"] = "acme"},
    {["X-Tenant"] = "globex"},
    {["X-Tenant"] = "initech"},
}
local words = {"Province", "Island", "District", "Saint", "San%20", "Capital", "language", "Old%20"}

local n_setup = 0

function setup(thread)
    thread:set("number", n_setup)
    n_setup = n_setup + 1
end

local function read_documents(path)
    local documents = {}
    for line in io.lines(path) do
        local collection, id, text = line:match("^([^\t]+)\t([^\t]+)\t(.*)$")
        documents[#documents + 1] = {path = "/docs/" .. collection .. "/" .. id, text = text}
    end
    return documents
end

local phase, documents, copies, searches
local sent, stored, refused = -1, 0, 0 -- -1: wrk asks for one request beforehand, to see its form
local created = {} -- paths of documents that this thread may delete

function init(args)
    phase, copies, searches = args[1], tonumber(args[3]), tonumber(args[6])
    documents = read_documents(args[2])
    if tonumber(args[4]) > 0 then tenants = {} end
    for i = 1, tonumber(args[4]) do tenants[i] = {["X-Tenant"] = "tenant" .. i} end
    local pause = tonumber(args[5])
    if pause > 0 and phase == "mix" then delay = function() return math.random(0, 2 * pause) end end
    math.randomseed(number + 1)
    response = phase == "seed" and count_stored or note_created
end

-- The nth of #documents * copies documents, from 0. Copies differ in their edition.
local function put(n)
    local document = documents[n % #documents + 1]
    local edition = math.floor(n / #documents)
    local text = '{"edition":' .. edition .. "," .. document.text:sub(2)
    return wrk.format("PUT", document.path .. "." .. edition, tenants[math.random(#tenants)], text)
end

-- Some documents are wanted far more often than others.
local function pick()
    return math.floor(#documents * copies * math.random() ^ 3)
end

local function get()
    local n = pick()
    local path = documents[n % #documents + 1].path .. "." .. math.floor(n / #documents)
    return wrk.format("GET", path, tenants[math.random(#tenants)])
end

local function search(limit)
    local path = "/docs/countries?limit=" .. limit .. "&q=" .. words[math.random(#words)]
    return wrk.format("GET", path, tenants[math.random(#tenants)])
end

local function create()
    local path = "/docs/drafts/" .. number .. "-" .. sent
    return wrk.format("POST", path, tenants[math.random(#tenants)], documents[math.random(#documents)].text)
end

local function delete()
    return wrk.format("DELETE", table.remove(created), tenants[math.random(#tenants)])
end

local function mix()
    if math.random(100) <= searches then return search(100) end
    local dice = math.random(100)
    if dice <= 70 then return get() end
    if dice <= 85 then return put(pick()) end
    if dice <= 88 then return search(10) end
    if dice <= 90 then return wrk.format("GET", "/stats") end
    if #created > 20 then return delete() end
    return create()
end

function request()
    sent = sent + 1
    if phase == "mix" then return mix() end
    if sent <= #documents * copies then return put(math.max(sent - 1, 0)) end
    return wrk.format("GET", "/stats") -- while other connections wait for their last answer
end

-- The phase has one thread. It ends wrk, which otherwise waits until its time is up.
function count_stored(status)
    if status == 201 or status == 204 then stored = stored + 1 end
    if status >= 300 then refused = refused + 1 end
    if stored + refused < #documents * copies then return end
    io.write(string.format("load: %d documents stored, %d refused\n", stored, refused))
    os.exit(refused == 0 and 0 or 1)
end

function note_created(status, headers)
    local location = status == 201 and headers["Location"]
    if location and location:find("^/docs/drafts/") then created[#created + 1] = location end
end

function done(summary, latency)
    local e = summary.errors
    local failed = e.connect + e.read + e.write + e.status + e.timeout
    io.write(string.format("load: %d requests in %.1f s (%.0f/s), latency median %.2f ms, 99%% %.2f ms, %d failed\n",
        summary.requests, summary.duration / 1e6, summary.requests / (summary.duration / 1e6),
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failed))
    if failed > 0 then
        io.write(string.format("load: failed: %d to connect, %d reads, %d writes, %d statuses, %d timeouts\n",
            e.connect, e.read, e.write, e.status, e.timeout))
    end
    os.exit(failed == 0 and summary.requests > 0 and 0 or 1)
end
