-- What a controller of version 4 of the database left of a stack with hidden parameters, written down with sqlite3's
-- .dump; an output, an attribute, a definition, a content and a deleted revision were added by hand.
INSERT OR REPLACE INTO meta VALUES('epoch','1');
INSERT OR REPLACE INTO meta VALUES('highest_stack','1');
INSERT OR REPLACE INTO meta VALUES('highest_traversal','1');
INSERT OR REPLACE INTO meta VALUES('probe','0');
INSERT OR REPLACE INTO stacks VALUES(1,'app','CREATE','IN_PROGRESS','',1,1,3600,0,'[]','[{"key":"shown","value":"marker-in-output","description":""}]','{"note":"******","password":"******"}',3,'2026-11-22T00:30:31.504Z','2026-11-22T00:30:31.504Z',0,0,'[]');
INSERT OR REPLACE INTO revisions VALUES(1,1,'t.yaml',replace('heat_template_version: 2021-04-16\012parameters:\012  password: {type: string, hidden: true}\012  note: {type: string, hidden: true, default: none}\012resources:\012  file:\012    type: Muster::File\012    properties:\012      node: web-1\012      path: /etc/app.conf\012      content: {str_replace: {template: "password = PW\n", params: {PW: {get_param: password}}}}\012  dummy:\012    type: Muster::Dummy\012    properties: {node: web-1, values: {secret: {get_param: password}}}\012outputs:\012  shown: {value: {get_attr: [dummy, secret]}}\012','\012',char(10)),'{}','{"password":"marker-from-old-code"}','2026-11-22T00:30:31.504Z','[{"name":"e.yaml","text":"parameters: {note: marker-in-environment}\n"}]','CREATE');
INSERT OR REPLACE INTO resources VALUES(1,'5f2f6057-05ab-4531-a9a2-73cff3f82abf',1,'dummy','Muster::Dummy','web-1',X'6d61726b65722d646967657374000000',1,NULL,X'0200000106736563726574146d61726b65722d66726f6d2d6f6c642d636f64650000',0,NULL,NULL,'CREATE','IN_PROGRESS',NULL,0,NULL,NULL,1,1,0,0,0,0,'{"given":"marker-in-attribute"}',0,NULL,NULL,'unknown',0,NULL,0,NULL);
INSERT OR REPLACE INTO resources VALUES(2,'4c411714-1669-43f8-aaf3-654180e9f543',1,'file','Muster::File','web-1',X'00000000000000000000000000000000',1,NULL,X'0200010d2f6574632f6170702e636f6e66002070617373776f7264203d206d61726b65722d66726f6d2d6f6c642d636f64650aa403000000',0,NULL,NULL,'CREATE','IN_PROGRESS',NULL,0,NULL,NULL,1,2,0,0,0,0,NULL,0,NULL,NULL,'unknown',0,NULL,0,NULL);
INSERT OR REPLACE INTO events VALUES(1,1,'2026-11-22T00:30:31.504Z',NULL,NULL,'CREATE','IN_PROGRESS','');
INSERT OR REPLACE INTO events VALUES(1,2,'2026-11-22T00:30:31.504Z','dummy','5f2f6057-05ab-4531-a9a2-73cff3f82abf','CREATE','IN_PROGRESS','');
INSERT OR REPLACE INTO events VALUES(1,3,'2026-11-22T00:30:31.504Z','file','4c411714-1669-43f8-aaf3-654180e9f543','CREATE','IN_PROGRESS','');
INSERT INTO contents VALUES (X'0707070707070707070707070707070707070707070707070707070707070707', CAST('marker-in-content' AS BLOB));
INSERT INTO revisions VALUES (1, 0, 't.yaml', printf('%.60000c', 'm') || 'marker-deleted', '{}', '{}', '', '[]', '');
DELETE FROM revisions WHERE number = 0;
